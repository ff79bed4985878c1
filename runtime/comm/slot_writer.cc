#include "runtime/comm/slot_writer.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace dlrun {

namespace {

using Clock = std::chrono::steady_clock;

constexpr bool kCanStream =
#if defined(__SSE2__)
    true;
#else
    false;
#endif

/// Collectives up to kLittle bytes always stream, if a single write has at least kLeastStreamed
/// bytes; smaller writes are not worth the fence.
constexpr std::size_t kLittle = std::size_t{64} << 10U;
constexpr std::size_t kLeastStreamed = std::size_t{8} << 10U;
/// A timed write stores its first kSample bytes plainly and measures that. Only writes of at least
/// 2 * kSample bytes in larger collectives are timed: every plain one, and one of kSampleEvery
/// streamed ones.
constexpr std::size_t kSample = std::size_t{16} << 10U;
constexpr unsigned kSampleEvery = 8;
/// A timed write below this rate is slow. The counter slow_ runs from 0 to kSure, and is_far_
/// changes at either end.
constexpr double kSlowBytesPerNanosecond = 3.5;
constexpr int kSure = 2;

void copy(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

void stream(void* to, const void* from, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64;
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  const std::size_t head =
      std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(out) % kLine) % kLine);
  std::memcpy(out, in, head);
  std::size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    for (std::size_t i = at; i < at + kLine; i += sizeof(__m128i)) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
    }
  }
  std::memcpy(out + at, in + at, bytes - at);
  _mm_sfence();  // the data must be visible before the flag that announces it
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace

void SlotWriter::begin(std::size_t bytes) {
  is_little_ = bytes <= kLittle;
}

void SlotWriter::write(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const bool streams = kCanStream && (is_little_ || is_far_) && bytes >= kLeastStreamed;
  if (is_little_ || bytes < 2 * kSample || (streams && ++streamed_ % kSampleEvery != 0)) {
    streams ? stream(to, from, bytes) : copy(to, from, bytes);
    return;
  }
  const auto start = Clock::now();
  copy(to, from, kSample);
  took(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  auto* const rest = static_cast<char*>(to) + kSample;
  const auto* const rest_from = static_cast<const char*>(from) + kSample;
  streams ? stream(rest, rest_from, bytes - kSample) : copy(rest, rest_from, bytes - kSample);
}

void SlotWriter::took(double nanoseconds) {
  const bool is_slow = static_cast<double>(kSample) < kSlowBytesPerNanosecond * nanoseconds;
  slow_ = std::clamp(slow_ + (is_slow ? 1 : -1), 0, kSure);
  if (slow_ == kSure) is_far_ = true;
  if (slow_ == 0) is_far_ = false;
}

}  // namespace dlrun
