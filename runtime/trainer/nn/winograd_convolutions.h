#pragma once
// Convolutions of 3 x 3 windows with stride 1 by Winograd's algorithm (winograd_loops.h).

#include <cstddef>

#include "common/result.h"
#include "runtime/trainer/nn/scratch.h"
#include "runtime/trainer/nn/window.h"

namespace dlrun::trainer {

/// Arrays have the layout of LayerKernels. Only one thread may use an object; the object itself
/// uses `threads` threads. Functions fail with kInternal if out of memory.
class WinogradConvolutions {
 public:
  explicit WinogradConvolutions(int threads) : threads_(threads) {}

  /// Returns true if the algorithm supports the window and is faster for this window than the other
  /// implementations (cpu_convolutions.h).
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
  struct Tiles;

  /// Computes y (of shape tiles.to) as the convolution of x (of shape tiles.from), with zeros
  /// outside of the image. w: the forward pass's weights. is_backward: this function reads the 3 x
  /// 3 positions of w in reverse order and exchanges input and output channels.
  [[nodiscard]] Result<> convolve(const Tiles& tiles, const float* x, const float* w,
                                  bool is_backward, float* y);

  int threads_;
  bool is_used_ = false;
  Scratch weight_scratch_;
  Scratch input_scratch_;
  Scratch output_scratch_;
};

}  // namespace dlrun::trainer
