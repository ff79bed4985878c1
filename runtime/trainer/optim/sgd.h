#pragma once
// Stochastic gradient descent: plain, with momentum, and Nesterov's.

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

/// Updates parameter p in place. In the rules below, g is the gradient after scaling and weight
/// decay. Without state the rule is plain descent: p = p - lr g. With a velocity the rule is
/// momentum (Polyak 1964) as PyTorch writes it, with the learning rate outside the velocity:
///   velocity = momentum velocity + g,  p = p - lr velocity.
/// Nesterov's momentum (Sutskever et al. 2013, section 2) as PyTorch writes it has the same
/// velocity, but changes p in another way:
///   p = p - lr (g + momentum velocity).
/// LARS (You et al. 2017, Algorithm 1) has the rate inside the velocity:
///   velocity = momentum velocity + inner_rate * g,  p = p - velocity.
template <typename T>
struct SgdFormula {
  T rate;                ///< rate * direction is subtracted from the parameter
  T momentum;            ///< factor of the old velocity
  T weight_decay;        ///< L2: weight_decay * parameter is added to the gradient
  T gradient_scale = 1;  ///< the gradient is first multiplied by this
  T inner_rate = 1;  ///< for LARS: the layer's rate, a factor inside the velocity; rate is then 1
  /// direction = gradient_factor * gradient + velocity_factor * velocity. The factors are 0 and 1
  /// for momentum, 1 and momentum for Nesterov.
  T gradient_factor = 0;
  T velocity_factor = 1;

  DLRUN_HOST_DEVICE void operator()(T& p, T g) const {
    p -= rate * (gradient_scale * g + weight_decay * p);
  }

  DLRUN_HOST_DEVICE void operator()(T& p, T g, T& velocity) const {
    g = gradient_scale * g + weight_decay * p;
    velocity = momentum * velocity + inner_rate * g;
    p -= rate * (gradient_factor * g + velocity_factor * velocity);
  }
};

}  // namespace dlrun::trainer

#ifndef __CUDACC__  // nvcc needs only the formula, and compiles it as C++17

#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {

/// Gradient descent. If OptimizerOptions::momentum is not 0, the descent has momentum; if
/// kIsNesterov, this is Nesterov's momentum.
template <typename T, bool kIsNesterov>
class SgdRule final : public Optimizer<T> {
 public:
  explicit SgdRule(const OptimizerOptions& options) : options_(options) {}

  [[nodiscard]] std::span<const StateArrayInfo> states() const override {
    static constexpr std::array<StateArrayInfo, 1> kStates{{{"velocity"}}};
    return std::span(kStates).first(*options_.momentum == 0 ? 0 : 1);
  }

  void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const override {
    SgdFormula<T> formula{
        .rate = static_cast<T>(info.learning_rate),
        .momentum = static_cast<T>(*options_.momentum),
        .weight_decay = static_cast<T>(*options_.weight_decay),
        .gradient_scale = static_cast<T>(info.gradient_scale),
    };
    if constexpr (kIsNesterov) {
      formula.gradient_factor = 1;
      formula.velocity_factor = formula.momentum;
    }
    kernels.update(formula, slice.arrays());
  }

 private:
  OptimizerOptions options_;
};

template <typename T>
using Sgd = SgdRule<T, false>;
template <typename T>
using Nesterov = SgdRule<T, true>;

}  // namespace dlrun::trainer
#endif
