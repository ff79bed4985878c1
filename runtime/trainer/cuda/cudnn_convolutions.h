#pragma once
// Convolutions through cuDNN.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/window.h"

namespace dlrun::trainer::cuda {

/// cuDNN's convolutions of a network on device's stream, set up when first used and kept for each
/// window and batch size. Arrays are device memory and as LayerKernels says. In float32 throughout
/// (no TF32), or, as device's precision has it, with what cuDNN reads and writes rounded to
/// bfloat16, its sums in float32 (a window for which it has no such algorithm stays in float32); by
/// algorithms that repeat to the bit. Weights are turned into cuDNN's order [out x size x size x
/// in] and their gradients back: they are few.
class CudnnConvolutions {
 public:
  /// device outlives it.
  explicit CudnnConvolutions(Kernels<float>& device);
  ~CudnnConvolutions();
  CudnnConvolutions(const CudnnConvolutions&) = delete;
  CudnnConvolutions& operator=(const CudnnConvolutions&) = delete;

  /// Fails with kInternal: the call and cuDNN's reason; the window where it has no algorithm.
  [[nodiscard]] Result<> forward(const Window& window, std::size_t n, const float* x,
                                 const float* w, float* y);
  [[nodiscard]] Result<> backward_input(const Window& window, std::size_t n, const float* w,
                                        const float* dy, float* dx);
  [[nodiscard]] Result<> backward_weights(const Window& window, std::size_t n, const float* x,
                                          const float* dy, float* dw);
  /// The algorithms that ran, such as "cudnnConvolutionForward 1", "cudnnConvolutionForward 1,
  /// bf16".
  [[nodiscard]] const std::vector<std::string>& implementations() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace dlrun::trainer::cuda
