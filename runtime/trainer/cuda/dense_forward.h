#pragma once
// Computes a dense layer's matrix product, bias and ReLU in one call of cuBLASLt.

#include <cstddef>
#include <memory>

#include "common/result.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer::cuda {

/// Works on device's stream. x and w are float32 (no TF32) or bfloat16; all other numbers are
/// float32. Keeps a plan, with cuBLASLt's algorithm, for each shape and alignment of the arrays.
class DenseForward {
 public:
  /// `device` must outlive this object.
  DenseForward(Kernels<float>& device, Precision precision);
  ~DenseForward();
  DenseForward(const DenseForward&) = delete;
  DenseForward& operator=(const DenseForward&) = delete;

  /// Computes Kernels::dense. x and w have the type of the precision. All arrays are device memory.
  /// Returns false, and queues nothing, if cuBLASLt has no algorithm for this case. Fails with
  /// kInternal (the message names the call and the reason), and with the device's error if memory
  /// runs out.
  [[nodiscard]] Result<bool> run(std::size_t n, std::size_t inputs, std::size_t outputs,
                                 const void* x, const void* w, const float* bias, bool with_relu,
                                 float* y);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace dlrun::trainer::cuda
