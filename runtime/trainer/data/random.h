#pragma once
// Random numbers that are equal on every machine, compiler and world size. The generator is
// counter-based, and its key includes the purpose of the numbers.

#include <cmath>
#include <cstdint>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

/// Returns the result of one mixing step of SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable
/// pseudorandom number generators").
[[nodiscard]] DLRUN_HOST_DEVICE constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// The purpose of a stream of random numbers. Streams with different purposes are independent, even
/// if their seeds and indices are equal.
enum class Purpose : std::uint64_t {
  kInit = 1,
  kShuffle = 2,
  kTrainDigits = 3,
  kTestDigits = 4,
  kDropout = 5,
  kAugment = 6,
  kTrainPatches = 7,
  kTestPatches = 8,
  kSpectra = 9
};

/// A stream of SplitMix64 with the key (seed, purpose, index). The index is for example a layer, an
/// epoch or a sample.
class Random {
 public:
  DLRUN_HOST_DEVICE Random(std::uint64_t seed, Purpose purpose, std::uint64_t index = 0)
      : state_(mix(mix(mix(seed) ^ static_cast<std::uint64_t>(purpose)) ^ index)) {}

  [[nodiscard]] std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    return mix(state_);
  }

  /// Returns a number uniform in [0, 1), with 53 bits.
  [[nodiscard]] double uniform() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

  /// Returns the result of the (i + 1)-th future call of uniform().
  [[nodiscard]] DLRUN_HOST_DEVICE double uniform_at(std::uint64_t i) const {
    return static_cast<double>(mix(state_ + (i + 1) * 0x9e3779b97f4a7c15U) >> 11U) * 0x1p-53;
  }

  /// Returns uniform_at(i) < bound without floating point, where threshold = threshold_of(bound).
  [[nodiscard]] bool is_below_at(std::uint64_t i, std::uint64_t threshold) const {
    return mix(state_ + (i + 1) * 0x9e3779b97f4a7c15U) >> 11U < threshold;
  }
  /// Returns the threshold for is_below_at(). 0 <= bound <= 1.
  [[nodiscard]] static std::uint64_t threshold_of(double bound) {
    // The product is exact: 0x1p53 is a power of two.
    return static_cast<std::uint64_t>(std::ceil(bound * 0x1p53));
  }

  /// Returns a number uniform in [low, high).
  [[nodiscard]] double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// Returns an integer uniform in 0..bound-1 by multiplication (Lemire 2019); the bias is below
  /// bound / 2^64. bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64U);
  }

 private:
  std::uint64_t state_;
};

}  // namespace dlrun::trainer
