// A frame is a header of eight bytes and a payload. The header holds the kind (1 byte), the length
// of the payload (3 bytes) and the channel (4 bytes), with the high byte first.

#include "common/relay_frames.h"

#include <algorithm>
#include <array>

namespace dlrun {
namespace {

constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kNoiseLimit = 64U << 10U;  ///< bytes before the greeting
/// append() removes the bytes that frames have used if there are more than this number.
constexpr std::size_t kMostUsedBytes = 256U << 10U;

void append_number(std::string& out, std::uint32_t number, int bytes) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>((number >> static_cast<unsigned>(shift)) & 0xFFU));
}

std::uint32_t big_endian_number(std::string_view bytes) {
  std::uint32_t number = 0;
  for (const char byte : bytes) number = number << 8U | static_cast<unsigned char>(byte);
  return number;
}

/// Returns the range of lengths that the protocol allows for the payload of this kind; nullopt for
/// an unknown kind.
std::optional<std::array<std::size_t, 2>> lengths_of(FrameKind kind) {
  using Lengths = std::array<std::size_t, 2>;
  switch (kind) {
    case FrameKind::kOpen:
      return Lengths{2, 2};
    case FrameKind::kCredit:
      return Lengths{4, 4};
    case FrameKind::kData:
      return Lengths{1, kFramePayloadLimit};
    case FrameKind::kReset:
      return Lengths{0, kFramePayloadLimit};
    case FrameKind::kOpened:
    case FrameKind::kWaiting:
    case FrameKind::kEnd:
    case FrameKind::kAlive:
      return Lengths{0, 0};
  }
  return std::nullopt;
}

}  // namespace

void append_frame(std::string& out, FrameKind kind, std::uint32_t channel,
                  std::string_view payload) {
  out.push_back(static_cast<char>(kind));
  append_number(out, static_cast<std::uint32_t>(payload.size()), 3);
  append_number(out, channel, 4);
  out.append(payload);
}

void append_open(std::string& out, std::uint32_t channel, std::uint16_t port) {
  std::string payload;
  append_number(payload, port, 2);
  append_frame(out, FrameKind::kOpen, channel, payload);
}

void append_credit(std::string& out, std::uint32_t channel, std::uint32_t bytes) {
  std::string payload;
  append_number(payload, bytes, 4);
  append_frame(out, FrameKind::kCredit, channel, payload);
}

void FrameBuffer::append(std::string_view bytes) {
  if (at_ == bytes_.size() || at_ > kMostUsedBytes) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  bytes_.append(bytes);
}

Result<bool> FrameBuffer::skip_greeting() {
  const std::string_view received = rest();
  if (const auto found = received.find(kRelayGreeting); found != std::string_view::npos) {
    at_ += found + kRelayGreeting.size();
    return true;
  }
  // The last bytes may be the first part of the greeting.
  const std::size_t kept = std::min(received.size(), kRelayGreeting.size() - 1);
  const std::size_t noise = received.size() - kept;
  at_ += noise;
  skipped_ += noise;
  if (skipped_ > kNoiseLimit)
    return fail(Errc::kInvalid, "the other end is no relay: it sent {} bytes of something else",
                skipped_);
  return false;
}

Result<std::optional<Frame>> FrameBuffer::next() {
  const std::string_view received = rest();
  if (received.size() < kHeaderBytes) return std::nullopt;
  Frame frame;
  frame.kind = static_cast<FrameKind>(received[0]);
  const std::size_t length = big_endian_number(received.substr(1, 3));
  frame.channel = big_endian_number(received.substr(4, 4));
  const auto allowed = lengths_of(frame.kind);
  if (!allowed || length < (*allowed)[0] || length > (*allowed)[1]) {
    return fail(Errc::kInvalid,
                "the relay got a frame of kind {} with {} bytes, which its protocol does not have",
                static_cast<int>(static_cast<unsigned char>(received[0])), length);
  }
  if (received.size() < kHeaderBytes + length) return std::nullopt;
  frame.payload = received.substr(kHeaderBytes, length);
  if (frame.kind == FrameKind::kOpen || frame.kind == FrameKind::kCredit)
    frame.port_or_credit = big_endian_number(frame.payload);
  at_ += kHeaderBytes + length;
  return frame;
}

}  // namespace dlrun
