#pragma once
// A port as `dlrun forward` takes it: PORT or PORT:LOCAL.

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/result.h"

namespace dlrun {

struct ForwardedPort {
  std::uint16_t port = 0;  ///< the program's port on the node
  /// The port to listen on here; 0: any free one; nullopt: the caller chooses.
  std::optional<std::uint16_t> local;

  friend bool operator==(const ForwardedPort&, const ForwardedPort&) = default;
};

/// Parses the text. Fails with kUsage.
[[nodiscard]] Result<ForwardedPort> parse_forwarded_port(std::string_view text);

}  // namespace dlrun
