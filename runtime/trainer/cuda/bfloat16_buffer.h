#pragma once
// Scratch memory for the bfloat16 arrays of matrix products and convolutions.

#include <cstddef>
#include <cstdint>

#include "runtime/trainer/cuda/step_kernels.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer::cuda {

/// A bfloat16 array in device memory that grows on demand. Its content is valid until the next call
/// of reserve() or rounded().
class Bfloat16Buffer {
 public:
  /// `device` must outlive this object.
  explicit Bfloat16Buffer(Kernels<float>& device) : device_(device) {}

  /// Returns memory for `count` numbers, count > 0; nullptr if out of memory (`device` then holds
  /// the error).
  [[nodiscard]] std::uint16_t* reserve(std::size_t count) {
    if (count > memory_.size()) memory_ = Array<std::uint16_t>(device_, count);
    return memory_.data();
  }

  /// Rounds x, [count] in device memory, on device's stream and returns the result; nullptr if out
  /// of memory, like reserve(). The caller checks the launch of the kernel.
  [[nodiscard]] const std::uint16_t* rounded(const float* x, std::size_t count) {
    std::uint16_t* const numbers = reserve(count);
    if (numbers != nullptr)
      round_to_bfloat16(x, numbers, count, static_cast<cudaStream_t>(device_.stream()));
    return numbers;
  }

 private:
  Kernels<float>& device_;
  Array<std::uint16_t> memory_;
};

}  // namespace dlrun::trainer::cuda
