#pragma once
// Convolutions through oneDNN.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/layer_kernels.h"

namespace dlrun::trainer {

/// oneDNN's convolutions of a network, made when first used and kept for each window and batch
/// size. Arrays are as LayerKernels says; oneDNN chooses its own layout for the weights, which are
/// few.
class OnednnConvolutions {
 public:
  OnednnConvolutions();
  ~OnednnConvolutions();
  OnednnConvolutions(const OnednnConvolutions&) = delete;
  OnednnConvolutions& operator=(const OnednnConvolutions&) = delete;

  [[nodiscard]] Result<> forward(const Window& window, std::size_t n, const float* x,
                                 const float* w, const float* bias, bool with_relu, float* y);
  [[nodiscard]] Result<> backward_input(const Window& window, std::size_t n, const float* w,
                                        const float* dy, float* dx);
  /// Of the weights alone: oneDNN 2.6 adds up the biases' gradients four at a time (SSE), 6 % of
  /// cnn's step.
  [[nodiscard]] Result<> backward_weights(const Window& window, std::size_t n, const float* x,
                                          const float* dy, float* dw);
  [[nodiscard]] const std::vector<std::string>& implementations() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace dlrun::trainer
