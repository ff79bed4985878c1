#pragma once
// Convolutions with cuDNN.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/window.h"

namespace dlrun::trainer::cuda {

/// The convolutions of a network on device's stream. Creates cuDNN's objects at first use and keeps
/// them for each window, batch size and number format. Arrays are device memory with the layout of
/// LayerKernels.
///
/// With precision float32, everything is float32 (no TF32). With bfloat16, the arrays that cuDNN
/// reads and writes are rounded to bfloat16, while its sums are float32. If cuDNN has no bfloat16
/// algorithm for a pass of a window, this pass is computed in float32. Only algorithms that give
/// the same bits in every run are used. The object transposes weights to cuDNN's order [out x size
/// x size x in], and their gradients back.
class CudnnConvolutions {
 public:
  /// `device` must outlive this object.
  explicit CudnnConvolutions(Kernels<float>& device);
  ~CudnnConvolutions();
  CudnnConvolutions(const CudnnConvolutions&) = delete;
  CudnnConvolutions& operator=(const CudnnConvolutions&) = delete;

  /// Computes LayerKernels::convolve, without bias and ReLU. n > 0. Fails with kInternal (the
  /// message names the call and cuDNN's error, or the window for which cuDNN has no algorithm), and
  /// with the device's error if memory runs out.
  [[nodiscard]] Result<> forward(const Window& window, std::size_t n, const float* x,
                                 const float* w, float* y);
  /// Computes LayerKernels::convolve_backward_input. n > 0. Fails as forward() does.
  [[nodiscard]] Result<> backward_input(const Window& window, std::size_t n, const float* w,
                                        const float* dy, float* dx);
  /// Computes dw of LayerKernels::convolve_backward_weights, without dbias. n > 0. Fails as
  /// forward() does.
  [[nodiscard]] Result<> backward_weights(const Window& window, std::size_t n, const float* x,
                                          const float* dy, float* dw);
  /// Returns the algorithms that have run, for example "cudnnConvolutionForward 1" or
  /// "cudnnConvolutionForward 1, bf16": one text for each pass of each window, batch size and
  /// number format. A text may occur several times.
  [[nodiscard]] const std::vector<std::string>& implementations() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace dlrun::trainer::cuda
