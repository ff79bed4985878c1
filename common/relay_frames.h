#pragma once
// The frames of a relay, which carries many connections over one pair of pipes. One end is `dlrun
// forward`, and the other end is `dlrun-agent relay` on a node of the job. runtime/RELAY.md
// describes the protocol. No I/O.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// The kinds of frames. The numbers are part of the protocol. If a comment below begins with
/// "dlrun" or "agent", only that end sends the kind.
enum class FrameKind : std::uint8_t {
  kOpen = 1,     ///< dlrun: a client has connected; payload: the port on the node, 2 bytes
  kOpened = 2,   ///< agent: the program has accepted the connection
  kWaiting = 3,  ///< agent: nothing listens on the port yet, and the agent tries again
  kData = 4,     ///< bytes of the connection, at least one
  kCredit = 5,   ///< the end that gets it may send this many more bytes of kData; payload: 4 bytes
  kEnd = 6,      ///< no more bytes follow in this direction
  kReset = 7,    ///< the connection is closed in both directions; payload: the reason, for people
  kAlive = 8,    ///< dlrun: the forwarding continues; on channel 0, every kRelayBeat (relay_mux.h)
};

/// The largest payload of a frame, in bytes.
inline constexpr std::size_t kFramePayloadLimit = 32U << 10U;

/// A received frame. The payload is valid until the FrameBuffer that returned the frame changes.
struct Frame {
  FrameKind kind = FrameKind::kData;
  std::uint32_t channel = 0;
  std::string_view payload;
  std::uint32_t port_or_credit = 0;  ///< the number in a kOpen or a kCredit, otherwise 0
};

/// Appends a frame to `out`. The payload must fit into kFramePayloadLimit.
void append_frame(std::string& out, FrameKind kind, std::uint32_t channel,
                  std::string_view payload = {});
/// Appends a kOpen with a port.
void append_open(std::string& out, std::uint32_t channel, std::uint16_t port);
/// Appends a kCredit with a number of bytes.
void append_credit(std::string& out, std::uint32_t channel, std::uint32_t bytes);

/// The agent sends this text first. Other programs, such as a prolog of Slurm, may print something
/// before this text.
inline constexpr std::string_view kRelayGreeting{"\0dlrun relay 1\n", 15};

/// Collects received bytes and splits them into frames.
class FrameBuffer {
 public:
  void append(std::string_view bytes);

  /// Skips everything up to the end of the greeting. Returns false if more bytes are needed. Fails
  /// with kInvalid after 64 KiB without a greeting.
  [[nodiscard]] Result<bool> skip_greeting();

  /// Returns the next frame; nullopt if more bytes are needed. Fails with kInvalid for a frame that
  /// the protocol does not allow. The caller must not read further frames after a failure.
  [[nodiscard]] Result<std::optional<Frame>> next();

 private:
  [[nodiscard]] std::string_view rest() const { return std::string_view(bytes_).substr(at_); }

  std::string bytes_;
  std::size_t at_ = 0;       ///< index of the first byte that no frame has used
  std::size_t skipped_ = 0;  ///< bytes that were skipped before the greeting
};

}  // namespace dlrun
