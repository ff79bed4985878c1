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

/// In collectives of up to kSmallBytes, every write of at least kMinStreamedBytes streams. A write
/// below kMinStreamedBytes never streams, because the fence would take longer than streaming saves.
constexpr std::size_t kSmallBytes = std::size_t{64} << 10U;
constexpr std::size_t kMinStreamedBytes = std::size_t{8} << 10U;
/// A timed write stores its first kSampleBytes with plain stores and measures the time. In
/// collectives above kSmallBytes, every plain write of at least 2 * kSampleBytes is timed, and so
/// is every kSampleEvery-th streamed write of this size.
constexpr std::size_t kSampleBytes = std::size_t{16} << 10U;
constexpr unsigned kSampleEvery = 8;
/// A timed write below this rate is slow. slow_minus_fast_ stays between 0 and kSlowLimit;
/// streams_large_ becomes true at kSlowLimit and false at 0.
constexpr double kSlowBytesPerNanosecond = 3.5;
constexpr int kSlowLimit = 2;

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

void SlotWriter::begin_collective(std::size_t bytes) {
  is_small_ = bytes <= kSmallBytes;
}

void SlotWriter::write(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const bool streams = kCanStream && (is_small_ || streams_large_) && bytes >= kMinStreamedBytes;
  if (is_small_ || bytes < 2 * kSampleBytes || (streams && ++streamed_count_ % kSampleEvery != 0)) {
    streams ? stream(to, from, bytes) : copy(to, from, bytes);
    return;
  }
  const auto start = Clock::now();
  copy(to, from, kSampleBytes);
  record_sample(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  auto* const rest = static_cast<char*>(to) + kSampleBytes;
  const auto* const rest_from = static_cast<const char*>(from) + kSampleBytes;
  streams ? stream(rest, rest_from, bytes - kSampleBytes)
          : copy(rest, rest_from, bytes - kSampleBytes);
}

void SlotWriter::record_sample(double nanoseconds) {
  const bool is_slow = static_cast<double>(kSampleBytes) < kSlowBytesPerNanosecond * nanoseconds;
  slow_minus_fast_ = std::clamp(slow_minus_fast_ + (is_slow ? 1 : -1), 0, kSlowLimit);
  if (slow_minus_fast_ == kSlowLimit) streams_large_ = true;
  if (slow_minus_fast_ == 0) streams_large_ = false;
}

}  // namespace dlrun
