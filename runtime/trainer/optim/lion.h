#pragma once
// Lion: descent with the sign of a momentum.

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

/// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", Algorithm 2). For
/// parameter p with gradient g and momentum m, in place:
///   u = sign(beta1 m + (1 - beta1) g),  p = p - lr (u + weight_decay p),
///   m = beta2 m + (1 - beta2) g.
/// sign(0) is 0. sign(NaN) is NaN, so that a NaN in the gradients reaches the parameters and is
/// noticed.
template <typename T>
struct LionFormula {
  T rate;  ///< learning rate
  T beta1;
  T beta2;
  /// The parameter is first multiplied by this: 1 - learning rate * weight decay (decoupled).
  T decay_factor;
  T gradient_scale;  ///< the gradient is first multiplied by this

  DLRUN_HOST_DEVICE void operator()(T& p, T g, T& m) const {
    g = gradient_scale * g;
    const T direction = beta1 * m + (1 - beta1) * g;
    const T sign = direction > 0 ? T(1) : direction < 0 ? T(-1) : direction;
    p = decay_factor * p - rate * sign;
    m = beta2 * m + (1 - beta2) * g;
  }
};

}  // namespace dlrun::trainer

#ifndef __CUDACC__  // nvcc needs only the formula, and compiles it as C++17

#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {

template <typename T>
class Lion final : public Optimizer<T> {
 public:
  explicit Lion(const OptimizerOptions& options) : options_(options) {}

  [[nodiscard]] std::span<const StateArrayInfo> states() const override {
    static constexpr std::array<StateArrayInfo, 1> kStates{{{"m"}}};
    return kStates;
  }

  void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const override {
    kernels.update(
        LionFormula<T>{
            .rate = static_cast<T>(info.learning_rate),
            .beta1 = static_cast<T>(*options_.beta1),
            .beta2 = static_cast<T>(*options_.beta2),
            .decay_factor = static_cast<T>(1 - info.learning_rate * *options_.weight_decay),
            .gradient_scale = static_cast<T>(info.gradient_scale),
        },
        slice.arrays());
  }

 private:
  OptimizerOptions options_;
};

}  // namespace dlrun::trainer
#endif
