#pragma once
// The CPU's convolutions in float. A fixed rule chooses one of three implementations for each
// window: the one that was the fastest in measurements.

#include <cstddef>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/onednn_convolutions.h"
#include "runtime/trainer/nn/product_convolutions.h"
#include "runtime/trainer/nn/winograd_convolutions.h"

namespace dlrun::trainer {

/// Arrays have the layout of LayerKernels. The implementation depends only on the window, so that a
/// result does not depend on the number of samples. Only one thread may use an object.
class CpuConvolutions {
 public:
  explicit CpuConvolutions(int threads) : winograd_(threads), product_(threads) {}

  /// Computes LayerKernels::convolve. Fails with kInternal, like the other passes.
  [[nodiscard]] Result<> forward(const Window& window, std::size_t n, const float* x,
                                 const float* w, const float* bias, bool with_relu, float* y) {
    return with_implementation_for(window, [&](auto& implementation) {
      return implementation.forward(window, n, x, w, bias, with_relu, y);
    });
  }
  /// Computes LayerKernels::convolve_backward_input.
  [[nodiscard]] Result<> backward_input(const Window& window, std::size_t n, const float* w,
                                        const float* dy, float* dx) {
    return with_implementation_for(window, [&](auto& implementation) {
      return implementation.backward_input(window, n, w, dy, dx);
    });
  }
  /// Computes dw of LayerKernels::convolve_backward_weights, without dbias.
  [[nodiscard]] Result<> backward_weights(const Window& window, std::size_t n, const float* x,
                                          const float* dy, float* dw) {
    return with_implementation_for(window, [&](auto& implementation) {
      return implementation.backward_weights(window, n, x, dy, dw);
    });
  }

  /// Returns the names of the implementations that were used so far. For oneDNN, these are the
  /// names of its own implementations (OnednnConvolutions::implementations).
  [[nodiscard]] std::vector<std::string> implementations() const {
    std::vector<std::string> all = onednn_.implementations();
    if (winograd_.is_used()) all.emplace_back("winograd");
    if (product_.is_used()) all.emplace_back("product");
    return all;
  }

 private:
  template <typename Work>
  Result<> with_implementation_for(const Window& window, const Work& work) {
    if (WinogradConvolutions::suits(window)) return work(winograd_);
    if (ProductConvolutions::suits(window)) return work(product_);
    return work(onednn_);
  }

  WinogradConvolutions winograd_;
  ProductConvolutions product_;
  OnednnConvolutions onednn_;
};

}  // namespace dlrun::trainer
