#pragma once
// A dense layer's product with its bias and the ReLU behind it, in one pass of cuBLASLt.

#include <cstddef>
#include <memory>

#include "common/result.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer::cuda {

/// On device's stream, in float32 (no TF32). What is set up is kept for each shape and alignment of the arrays.
class DenseForward {
 public:
  /// device outlives it.
  explicit DenseForward(Kernels<float>& device);
  ~DenseForward();
  DenseForward(const DenseForward&) = delete;
  DenseForward& operator=(const DenseForward&) = delete;

  /// Kernels::dense. false: cuBLASLt has no algorithm for this, and nothing was queued.
  /// Fails with kInternal: the call and its reason.
  [[nodiscard]] Result<bool> run(std::size_t n, std::size_t inputs, std::size_t outputs, const float* x, const float* w,
                                 const float* bias, bool with_relu, float* y);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace dlrun::trainer::cuda
