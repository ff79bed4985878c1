#include "runtime/agent/tensorboard_event.h"

#include <array>
#include <bit>

namespace dlrun::agent {
namespace {

// Numbers of the fields in event.proto and summary.proto; kSessionStart is a value of the field
// kSessionStatus.
constexpr std::uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr std::uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimple = 2;
constexpr std::uint32_t kSessionStatus = 1, kSessionStart = 1;
// Wire types of protocol buffers.
constexpr std::uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  constexpr std::uint32_t kPolynomial = 0x82f63b78U;  // CRC-32C, with its bits reversed
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    table[byte] = crc;
  }
  return table;
}();

/// Appends the bytes of the number, the lowest first.
template <typename Number>
void append_little_endian(std::string& text, Number number) {
  for (std::size_t byte = 0; byte < sizeof number; ++byte)
    text += static_cast<char>(static_cast<unsigned char>(number >> (8 * byte)));
}

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xa282ead8U;
}

void append_varint(std::string& text, std::uint64_t number) {
  for (; number >= 0x80U; number >>= 7U)
    text += static_cast<char>(static_cast<unsigned char>(number | 0x80U));
  text += static_cast<char>(static_cast<unsigned char>(number));
}

void append_key(std::string& text, std::uint32_t field, std::uint32_t wire_type) {
  append_varint(text, (field << 3U) | wire_type);
}

void append_bytes(std::string& text, std::uint32_t field, std::string_view bytes) {
  append_key(text, field, kBytes);
  append_varint(text, bytes.size());
  text += bytes;
}

/// Returns the beginning of an Event: its time and, unless the step is 0, its step.
std::string event_head(double wall_s, std::int64_t step) {
  std::string event;
  append_key(event, kWallTime, kFixed64);
  append_little_endian(event, std::bit_cast<std::uint64_t>(wall_s));
  if (step != 0) {
    append_key(event, kStep, kVarint);
    append_varint(event, static_cast<std::uint64_t>(step));
  }
  return event;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = (crc >> 8U) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xffU];
  return ~crc;
}

std::string tf_record(std::string_view data) {
  std::string length;
  append_little_endian(length, static_cast<std::uint64_t>(data.size()));
  std::string record = length;
  append_little_endian(record, masked_crc(length));
  record += data;
  append_little_endian(record, masked_crc(data));
  return record;
}

std::string version_record(double wall_s) {
  auto event = event_head(wall_s, 0);
  append_bytes(event, kFileVersion, "brain.Event:2");
  return tf_record(event);
}

std::string restart_record(double wall_s, std::int64_t step) {
  auto event = event_head(wall_s, step);
  std::string session;
  append_key(session, kSessionStatus, kVarint);
  append_varint(session, kSessionStart);
  append_bytes(event, kSessionLog, session);
  return tf_record(event);
}

std::string scalars_record(double wall_s, std::int64_t step, std::span<const Scalar> scalars) {
  auto event = event_head(wall_s, step);
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    append_bytes(value, kValueTag, scalar.tag);
    append_key(value, kValueSimple, kFixed32);
    append_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    append_bytes(summary, kSummaryValue, value);
  }
  append_bytes(event, kSummary, summary);
  return tf_record(event);
}

}  // namespace dlrun::agent
