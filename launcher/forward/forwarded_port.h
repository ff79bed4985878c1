#pragma once
// A port as `dlrun forward` takes it: PORT or PORT:LOCAL.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun {

struct ForwardedPort {
  std::uint16_t node_port = 0;  ///< the program's port on the node
  /// The port to listen on, on this machine; 0: any free port; nullopt: the user gave none.
  std::optional<std::uint16_t> local_port;

  friend bool operator==(const ForwardedPort&, const ForwardedPort&) = default;
};

/// Parses PORT or PORT:LOCAL. Fails with kUsage for any other text.
[[nodiscard]] Result<ForwardedPort> parse_forwarded_port(std::string_view text);
/// Parses the ports. Fails with kUsage for a wrong text, and for two texts with the same PORT and
/// the same LOCAL.
[[nodiscard]] Result<std::vector<ForwardedPort>> parse_forwarded_ports(
    const std::vector<std::string>& texts);

}  // namespace dlrun
