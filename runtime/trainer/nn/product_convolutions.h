#pragma once
// Convolutions as matrix products that read the weights in place.

#include <cstddef>

#include "common/result.h"
#include "runtime/trainer/nn/scratch.h"
#include "runtime/trainer/nn/window.h"

namespace dlrun::trainer {

/// Copies the inputs under each window into a row of a matrix, [output pixels x (size x size x
/// channels)]. The result is this matrix times the weights. If a window is one pixel (stride 1, no
/// padding), the image itself is the matrix. oneDNN's own convolutions copy the weights into
/// another layout in every pass, which takes longer than the pass itself for small images.
///
/// Arrays have the layout of LayerKernels. Only one thread may use an object; the object itself
/// uses `threads` threads. Functions fail with kInternal if out of memory.
class ProductConvolutions {
 public:
  explicit ProductConvolutions(int threads) : threads_(threads) {}

  /// Returns true if a product is faster for this window than oneDNN's convolution.
  [[nodiscard]] static bool suits(const Window& window);
  /// Returns true if a pass has been computed.
  [[nodiscard]] bool is_used() const { return is_used_; }

  /// Computes LayerKernels::convolve.
  [[nodiscard]] Result<> forward(const Window& window, std::size_t n, const float* x,
                                 const float* w, const float* bias, bool with_relu, float* y);
  /// Computes LayerKernels::convolve_backward_input.
  [[nodiscard]] Result<> backward_input(const Window& window, std::size_t n, const float* w,
                                        const float* dy, float* dx);
  /// Computes dw of LayerKernels::convolve_backward_weights, without dbias.
  [[nodiscard]] Result<> backward_weights(const Window& window, std::size_t n, const float* x,
                                          const float* dy, float* dw);

 private:
  struct Matrix;

  int threads_;
  bool is_used_ = false;
  Scratch scratch_;
};

}  // namespace dlrun::trainer
