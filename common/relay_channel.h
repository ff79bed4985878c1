#pragma once
// One connection of a relay, as one of its two ends sees it: how much may be read, sent and kept.
// No I/O.
//
// Flow control: each end may send kRelayWindow bytes. It may send more when the other end has
// passed bytes on and gives credit for them. So an end holds at most one window for a reader that
// is slow, and the other connections go on.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// The bytes of one direction of a connection that are sent and not yet passed on.
inline constexpr std::size_t kRelayWindow = 512U << 10U;

class RelayChannel {
 public:
  /// Returns the number of bytes that may be read from the own socket and sent now. Returns 0 after
  /// the end.
  [[nodiscard]] std::size_t may_send() const { return has_sent_end_ ? 0 : credit_; }
  /// Notes that bytes were sent, at most may_send().
  void sent(std::size_t bytes) { credit_ -= bytes; }
  /// Notes that the end of the own socket's bytes was sent.
  void sent_end() { has_sent_end_ = true; }
  [[nodiscard]] bool has_sent_end() const { return has_sent_end_; }

  /// Takes bytes that the other end has sent. Fails with kInvalid if they exceed the window or
  /// follow the end.
  [[nodiscard]] Result<> receive(std::string_view bytes);
  /// Takes the other end's credit. Fails with kInvalid if it exceeds the bytes that were sent.
  [[nodiscard]] Result<> receive_credit(std::size_t bytes);
  /// Takes the other end's end. Fails with kInvalid if it has come before.
  [[nodiscard]] Result<> receive_end();

  /// Returns the received bytes that the own socket has not accepted yet.
  [[nodiscard]] std::string_view unwritten() const {
    return std::string_view(received_).substr(written_);
  }
  /// Notes that the own socket has accepted bytes. Returns the credit to send; 0 for none yet.
  [[nodiscard]] std::size_t wrote(std::size_t bytes);
  /// Returns true if everything is written and the other end has ended, so that the own socket's
  /// writing side must be closed.
  [[nodiscard]] bool is_written_whole() const { return has_received_end_ && unwritten().empty(); }
  /// Returns true if both directions have ended.
  [[nodiscard]] bool is_done() const { return has_sent_end_ && is_written_whole(); }

 private:
  std::size_t credit_ = kRelayWindow;
  std::string received_;
  std::size_t written_ = 0;  ///< the first bytes of received_, which the own socket has accepted
  std::size_t owed_ = 0;     ///< bytes passed on, for which no credit was sent yet
  bool has_sent_end_ = false, has_received_end_ = false;
};

}  // namespace dlrun
