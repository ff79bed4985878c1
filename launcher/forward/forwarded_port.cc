#include "launcher/forward/forwarded_port.h"

#include <algorithm>

#include "common/text.h"

namespace dlrun {
namespace {

/// Returns the port in the text; nullopt if it is no number from `least` to 65535.
std::optional<std::uint16_t> port_in(std::string_view text, std::int64_t least) {
  constexpr std::int64_t kMost = 65535;
  const auto number = parse_int(text);
  if (!number || *number < least || *number > kMost || text.front() == '+') return std::nullopt;
  return static_cast<std::uint16_t>(*number);
}

}  // namespace

Result<ForwardedPort> parse_forwarded_port(std::string_view text) {
  const auto colon = text.find(':');
  const auto port = port_in(text.substr(0, colon), 1);
  if (!port) {
    return fail(Errc::kUsage, "'{}': expected PORT or PORT:LOCAL, where PORT is from 1 to 65535",
                printable(text));
  }
  if (colon == std::string_view::npos) return ForwardedPort{*port, std::nullopt};
  const auto local = port_in(text.substr(colon + 1), 0);
  if (!local) {
    return fail(Errc::kUsage,
                "'{}': LOCAL, the port on this machine, must be from 1 to 65535, or 0 for any free "
                "one",
                printable(text));
  }
  return ForwardedPort{*port, local};
}

Result<std::vector<ForwardedPort>> parse_forwarded_ports(const std::vector<std::string>& texts) {
  std::vector<ForwardedPort> ports;
  for (const auto& text : texts) {
    DLRUN_TRY_ASSIGN(const auto port, parse_forwarded_port(text));
    if (std::find(ports.begin(), ports.end(), port) != ports.end())
      return fail(Errc::kUsage, "port {} is given twice", text);
    ports.push_back(port);
  }
  return ports;
}

}  // namespace dlrun
