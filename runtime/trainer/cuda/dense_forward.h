#pragma once
// A dense layer's product with its bias and the ReLU behind it, in one pass of cuBLASLt.

#include <cstddef>
#include <memory>

#include "common/result.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer::cuda {

/// On device's stream, in float32 (no TF32) or with x and w in bfloat16 and the rest in float32.
/// What is set up is kept for each shape and alignment of the arrays.
class DenseForward {
 public:
  /// device outlives it.
  DenseForward(Kernels<float>& device, Precision precision);
  ~DenseForward();
  DenseForward(const DenseForward&) = delete;
  DenseForward& operator=(const DenseForward&) = delete;

  /// Kernels::dense, of x and w as the precision has them. false: cuBLASLt has no algorithm for
  /// this, and nothing was queued. Fails with kInternal: the call and its reason.
  [[nodiscard]] Result<bool> run(std::size_t n, std::size_t inputs, std::size_t outputs,
                                 const void* x, const void* w, const float* bias, bool with_relu,
                                 float* y);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace dlrun::trainer::cuda
