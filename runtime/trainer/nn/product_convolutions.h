#pragma once
// Convolutions as products of matrices, with the weights where they lie.

#include <cstddef>

#include "common/result.h"
#include "runtime/trainer/nn/scratch.h"
#include "runtime/trainer/nn/window.h"

namespace dlrun::trainer {

/// Copies the inputs under each window side by side, [outputs x size size channels], unless a
/// window is one pixel and the copy would be the image itself. That matrix times the weights is the
/// result. oneDNN's own convolutions copy the weights into another layout in every pass, which
/// takes longer than the pass where images are small.
///
/// Arrays are laid out as LayerKernels says. One thread uses an object, which itself uses
/// `threads`. Fails with kInternal if out of memory.
class ProductConvolutions {
 public:
  explicit ProductConvolutions(int threads) : threads_(threads) {}

  /// Returns true if a product is faster for this window than oneDNN's convolution.
  [[nodiscard]] static bool takes(const Window& window);
  /// Returns true once a pass was computed.
  [[nodiscard]] bool is_used() const { return is_used_; }

  /// bias: nullptr for zeros.
  [[nodiscard]] Result<> forward(const Window& window, std::size_t n, const float* x,
                                 const float* w, const float* bias, bool with_relu, float* y);
  [[nodiscard]] Result<> backward_input(const Window& window, std::size_t n, const float* w,
                                        const float* dy, float* dx);
  [[nodiscard]] Result<> backward_weights(const Window& window, std::size_t n, const float* x,
                                          const float* dy, float* dw);

 private:
  struct Matrix;

  int threads_;
  bool is_used_ = false;
  Scratch scratch_;
};

}  // namespace dlrun::trainer
