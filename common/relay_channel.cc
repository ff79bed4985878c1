#include "common/relay_channel.h"

namespace dlrun {
namespace {

/// An end sends credit in portions of this size, so that credit needs few frames.
constexpr std::size_t kCreditPortion = kRelayWindow / 8;

}  // namespace

Result<> RelayChannel::receive(std::string_view bytes) {
  if (has_received_end_)
    return fail(Errc::kInvalid, "the relay got bytes after a connection's end");
  if (unwritten().size() + owed_ + bytes.size() > kRelayWindow) {
    return fail(Errc::kInvalid, "the relay got more than {} bytes without giving credit",
                kRelayWindow);
  }
  if (written_ == received_.size()) {
    received_.clear();
    written_ = 0;
  }
  received_.append(bytes);
  return {};
}

Result<> RelayChannel::receive_credit(std::size_t bytes) {
  if (credit_ + bytes > kRelayWindow)
    return fail(Errc::kInvalid, "the relay got credit for more bytes than it had sent");
  credit_ += bytes;
  return {};
}

Result<> RelayChannel::receive_end() {
  if (has_received_end_) return fail(Errc::kInvalid, "the relay got a connection's end twice");
  has_received_end_ = true;
  return {};
}

std::size_t RelayChannel::record_written(std::size_t bytes) {
  written_ += bytes;
  owed_ += bytes;
  if (written_ > kRelayWindow / 2) {  // a slow reader may always leave some bytes unwritten
    received_.erase(0, written_);
    written_ = 0;
  }
  if (owed_ < kCreditPortion) return 0;
  const std::size_t credit = owed_;
  owed_ = 0;
  return credit;
}

}  // namespace dlrun
