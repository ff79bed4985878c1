#pragma once
// Scratch for what products take in 16 bits.

#include <cstddef>
#include <cstdint>

#include "runtime/trainer/cuda/elementwise.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer::cuda {

/// One array of bfloat16, which grows; what lies there holds until it is asked for again.
class Halves {
 public:
  /// device outlives it.
  explicit Halves(Kernels<float>& device) : device_(device) {}

  /// Room for count numbers; nullptr: there is no memory, which device has kept.
  [[nodiscard]] std::uint16_t* room(std::size_t count) {
    if (count > memory_.size()) memory_ = Array<std::uint16_t>(device_, count);
    return memory_.data();
  }

  /// x, rounded on device's stream; nullptr as room().
  [[nodiscard]] const std::uint16_t* of(const float* x, std::size_t count) {
    std::uint16_t* const halves = room(count);
    if (halves != nullptr)
      round_to_bfloat16(x, halves, count, static_cast<cudaStream_t>(device_.stream()));
    return halves;
  }

 private:
  Kernels<float>& device_;
  Array<std::uint16_t> memory_;
};

}  // namespace dlrun::trainer::cuda
