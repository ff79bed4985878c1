#pragma once
// Convolutions with oneDNN's own primitives.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/layer_kernels.h"

namespace dlrun::trainer {

/// Computes the convolutions for which cpu_convolutions.h chooses no other implementation. Creates
/// oneDNN's objects at first use and keeps them per window and batch size. Arrays have the layout
/// of LayerKernels. oneDNN chooses its own layout for the weights, which are small enough to copy.
class OnednnConvolutions {
 public:
  OnednnConvolutions();
  ~OnednnConvolutions();
  OnednnConvolutions(const OnednnConvolutions&) = delete;
  OnednnConvolutions& operator=(const OnednnConvolutions&) = delete;

  /// Computes LayerKernels::convolve. Fails with kInternal and oneDNN's error, like the other
  /// passes.
  [[nodiscard]] Result<> forward(const Window& window, std::size_t n, const float* x,
                                 const float* w, const float* bias, bool with_relu, float* y);
  /// Computes LayerKernels::convolve_backward_input.
  [[nodiscard]] Result<> backward_input(const Window& window, std::size_t n, const float* w,
                                        const float* dy, float* dx);
  /// Computes dw of LayerKernels::convolve_backward_weights, without dbias: oneDNN 2.6 adds up the
  /// biases' gradients four at a time (SSE), which would take 6 % of a step of the model cnn.
  [[nodiscard]] Result<> backward_weights(const Window& window, std::size_t n, const float* x,
                                          const float* dy, float* dw);
  /// Returns oneDNN's names of the implementations that were chosen so far: one for each pass, so a
  /// name may occur several times.
  [[nodiscard]] const std::vector<std::string>& implementations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::trainer
