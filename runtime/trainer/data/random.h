#pragma once
// Random numbers that are the same on every machine, compiler and world size: counter-based, keyed
// by what they are for.

#include <cmath>
#include <cstdint>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

/// One mixing step of SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number
/// generators").
[[nodiscard]] DLRUN_HOST_DEVICE constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// What a stream of random numbers is for. Two streams with different purposes never share numbers.
enum class Purpose : std::uint64_t {
  kInit = 1,
  kShuffle = 2,
  kTrainDigits = 3,
  kTestDigits = 4,
  kDropout = 5
};

/// A stream: SplitMix64 keyed by (seed, purpose, index). index: the layer, the epoch, the sample.
class Random {
 public:
  DLRUN_HOST_DEVICE Random(std::uint64_t seed, Purpose purpose, std::uint64_t index = 0)
      : state_(mix(mix(mix(seed) ^ static_cast<std::uint64_t>(purpose)) ^ index)) {}

  [[nodiscard]] std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    return mix(state_);
  }

  /// Uniform in [0, 1), 53 bits.
  [[nodiscard]] double uniform() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

  /// What the (i + 1)-th uniform() from here on will be.
  [[nodiscard]] DLRUN_HOST_DEVICE double uniform_at(std::uint64_t i) const {
    return static_cast<double>(mix(state_ + (i + 1) * 0x9e3779b97f4a7c15U) >> 11U) * 0x1p-53;
  }

  /// uniform_at(i) < bound, for threshold = threshold_of(bound): the same answer without floating
  /// point.
  [[nodiscard]] bool is_below_at(std::uint64_t i, std::uint64_t threshold) const {
    return mix(state_ + (i + 1) * 0x9e3779b97f4a7c15U) >> 11U < threshold;
  }
  /// bound: 0 to 1.
  [[nodiscard]] static std::uint64_t threshold_of(double bound) {
    return static_cast<std::uint64_t>(
        std::ceil(bound * 0x1p53));  // exact: a multiplication by a power of two
  }

  /// Uniform in [low, high).
  [[nodiscard]] double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// Uniform in 0..bound-1 by multiplication (Lemire 2019); its bias is below bound / 2^64. bound >
  /// 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64U);
  }

 private:
  std::uint64_t state_;
};

}  // namespace dlrun::trainer
