#include "launcher/spec/download_item.h"

#include <algorithm>
#include <string_view>

#include "common/text.h"
#include "common/url_user.h"

namespace dlrun {
namespace {

constexpr std::size_t kSha256Digits = 64, kLongestName = 200, kLongestUrl = 4096;

/// The parts of a url that the checks need, as views into the url.
struct UrlParts {
  std::string_view scheme, authority, path;  ///< "https", "example.org:8080", "/a/b.gz"; no query
};

[[nodiscard]] UrlParts parts_of(std::string_view url) {
  UrlParts parts;
  if (const auto colon = url.find("://"); colon != std::string_view::npos) {
    parts.scheme = url.substr(0, colon);
    url.remove_prefix(colon + 3);
  }
  const auto end = std::min(url.find_first_of("/?#\\"), url.size());
  parts.authority = url.substr(0, end);
  url.remove_prefix(end);
  parts.path = url.substr(0, url.find_first_of("?#"));
  return parts;
}

/// Returns true if the url holds a user or a password. Also returns true for malformed urls such as
/// "https:/me:word@host/f", because a message about them would show the password.
[[nodiscard]] bool may_hold_user(std::string_view url) {
  constexpr std::string_view kSlashes = "://";
  const auto at = url.find('@');
  if (at == std::string_view::npos) return false;
  auto slashes = url.find(kSlashes);
  if (slashes == std::string_view::npos) return url.find(':') < at || url.find('/') > at;
  for (; slashes != std::string_view::npos; slashes = url.find(kSlashes, slashes + 1)) {
    if (has_user(url.substr(slashes + kSlashes.size()))) return true;
  }
  return false;
}

[[nodiscard]] bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && name.front() != '.' && is_utf8(name) &&
         std::none_of(name.begin(), name.end(), [](char c) { return c == '/' || is_control(c); });
}

[[nodiscard]] Result<> check_url(std::string_view url) {
  const UrlParts parts = parts_of(url);
  if (may_hold_user(url)) {
    return fail(Errc::kRefused,
                "this url holds a user or a password, which every run's record would show; fetch "
                "the file by other means");
  }
  if (parts.scheme != "https" && parts.scheme != "http")
    return fail(Errc::kInvalid, "'{}' is not an https:// or http:// url", printable(url));
  if (url.size() > kLongestUrl)
    return fail(Errc::kInvalid, "the url has {} bytes; the longest url has {}", url.size(),
                kLongestUrl);
  const bool is_plain =
      std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (!is_plain)
    return fail(Errc::kInvalid,
                "'{}' has a space, a control character or a letter outside ASCII; write these as "
                "%XX in a url",
                printable(url));
  if (parts.authority.empty() || !parts.path.starts_with('/'))
    return fail(Errc::kInvalid,
                "'{}' is not the url of a file; expected https://HOST[:PORT]/PATH/FILE",
                printable(url));
  return {};
}

}  // namespace

Result<Download> complete_download_item(Download download) {
  if (download.url.empty())
    return fail(Errc::kInvalid, "url is missing; set it to the address of the file");
  DLRUN_TRY(check_url(download.url));
  if (download.sha256.empty())
    return fail(Errc::kInvalid,
                "sha256 is missing: set the file's checksum; `sha256sum FILE` prints it");
  std::transform(
      download.sha256.begin(), download.sha256.end(), download.sha256.begin(),
      [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (download.sha256.size() != kSha256Digits || !from_hex(download.sha256))
    return fail(Errc::kInvalid, "sha256 is '{}', expected {} hexadecimal digits",
                printable(download.sha256), kSha256Digits);
  if (download.file.empty()) {
    const std::string_view path = parts_of(download.url).path;
    const std::string_view name = path.substr(path.rfind('/') + 1);
    if (!is_file_name(name) || name.find('%') != std::string_view::npos)
      return fail(
          Errc::kInvalid,
          "'{}' does not end with a file's name (without '%', not starting with '.', at most "
          "{} bytes); give one with file: NAME",
          printable(download.url), kLongestName);
    download.file = name;
  }
  if (!is_file_name(download.file)) {
    return fail(
        Errc::kInvalid,
        "file is '{}', expected a name of at most {} bytes of UTF-8, without '/' and control "
        "characters, not starting with '.'",
        printable(download.file), kLongestName);
  }
  return download;
}

}  // namespace dlrun
