#include "launcher/spec/rest_server.h"

#include <algorithm>

#include "common/text.h"

namespace dlrun {
namespace {

[[nodiscard]] bool is_host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

/// Returns true for "host", "host:port" and "[v6]:port", without user, path or query.
[[nodiscard]] bool is_authority(std::string_view text) {
  std::string_view host = text, colon_and_port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return false;
    host = text.substr(1, end - 1);
    colon_and_port = text.substr(end + 1);
    if (host.find_first_not_of("0123456789abcdefABCDEF:.") != std::string_view::npos) return false;
  } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    colon_and_port = text.substr(colon);
  }
  if (host.empty() ||
      (!text.starts_with('[') && !std::all_of(host.begin(), host.end(), is_host_char)))
    return false;
  if (colon_and_port.empty()) return true;
  const auto port =
      colon_and_port.starts_with(':') ? parse_int(colon_and_port.substr(1)) : std::nullopt;
  return port && *port > 0 && *port < 65536;
}

[[nodiscard]] bool is_loopback(std::string_view authority) {
  if (authority.starts_with("[::1]")) return true;
  const std::string_view host = authority.substr(0, authority.find(':'));
  return host == "localhost" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

}  // namespace

Result<RestAddress> parse_rest_url(std::string_view url) {
  // The address may contain a password, so this check comes first and its message does not show the
  // address. The messages of the later checks do.
  if (!url.starts_with("unix:") && url.find('@') != std::string_view::npos)
    return fail(Errc::kInvalid,
                "the address has a user name; remove everything between :// and the host");
  constexpr std::string_view kUnix = "unix:", kHttp = "http://", kHttps = "https://";
  constexpr std::size_t kLongestSocketPath = 107;  // bytes: sun_path without its final NUL
  if (url.starts_with(kUnix)) {
    const std::string_view path = url.substr(kUnix.size());
    if (!path.starts_with('/') || path.size() > kLongestSocketPath)
      return fail(Errc::kInvalid,
                  "'{}': expected a socket's absolute path of at most {} bytes after unix:",
                  printable(url), kLongestSocketPath);
    return RestAddress{"http://localhost", std::string(path)};
  }
  std::string_view address = url;
  if (address.ends_with('/')) address.remove_suffix(1);
  if (address.starts_with(kHttps) && is_authority(address.substr(kHttps.size())))
    return RestAddress{std::string(address), {}};
  if (address.starts_with(kHttp) && is_authority(address.substr(kHttp.size()))) {
    if (!is_loopback(address.substr(kHttp.size())))
      return fail(Errc::kInvalid,
                  "'{}': http:// to another machine would send the token unencrypted; give "
                  "https://, or a tunnel's end on 127.0.0.1",
                  printable(url));
    return RestAddress{std::string(address), {}};
  }
  return fail(Errc::kInvalid,
              "'{}' is not unix:/PATH, http://127.0.0.1:PORT or https://HOST[:PORT]",
              printable(url));
}

}  // namespace dlrun
