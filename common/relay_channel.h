#pragma once
// The state of one connection at one end of a relay: the number of bytes that this end may send,
// and the received bytes that this end still holds. No I/O.
//
// Flow control: each end may send kRelayWindow bytes. An end may send more when the other end has
// written bytes to its socket and gives credit for them. An end therefore holds at most one window
// for a slow reader, and the other connections continue.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// The largest number of bytes that an end may send on a connection before it gets credit for them.
inline constexpr std::size_t kRelayWindow = 512U << 10U;

class RelayChannel {
 public:
  /// Returns the number of bytes that this end may read from its socket and send now. Returns 0
  /// after record_sent_end() was called.
  [[nodiscard]] std::size_t sendable_bytes() const { return has_sent_end_ ? 0 : credit_; }
  /// Records that this end has sent bytes, at most sendable_bytes().
  void record_sent(std::size_t bytes) { credit_ -= bytes; }
  /// Records that this end has sent its kEnd frame (common/relay_frames.h): its socket has no more
  /// bytes.
  void record_sent_end() { has_sent_end_ = true; }
  [[nodiscard]] bool has_sent_end() const { return has_sent_end_; }

  /// Stores bytes that the other end has sent. Fails with kInvalid if the bytes exceed the window
  /// or follow the other end's kEnd.
  [[nodiscard]] Result<> receive(std::string_view bytes);
  /// Adds the other end's credit. Fails with kInvalid if the credit exceeds the bytes that were
  /// sent.
  [[nodiscard]] Result<> receive_credit(std::size_t bytes);
  /// Records the other end's kEnd. Fails with kInvalid if there was one before.
  [[nodiscard]] Result<> receive_end();

  /// Returns the received bytes that this end's socket has not accepted yet.
  [[nodiscard]] std::string_view unwritten() const {
    return std::string_view(received_).substr(written_);
  }
  /// Records that this end's socket has accepted bytes. Returns the credit to send now; 0: none.
  [[nodiscard]] std::size_t record_written(std::size_t bytes);
  /// Returns true if the other end has sent its kEnd and all bytes are written. The caller then
  /// shuts down the writing side of its socket.
  [[nodiscard]] bool is_written_whole() const { return has_received_end_ && unwritten().empty(); }
  /// Returns true if both directions have ended.
  [[nodiscard]] bool is_done() const { return has_sent_end_ && is_written_whole(); }

 private:
  std::size_t credit_ = kRelayWindow;
  std::string received_;
  std::size_t written_ = 0;  ///< number of bytes of received_ that the socket has accepted
  std::size_t owed_ = 0;  ///< written bytes for which record_written() has returned no credit yet
  bool has_sent_end_ = false, has_received_end_ = false;
};

}  // namespace dlrun
