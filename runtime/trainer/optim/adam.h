#pragma once
// Adam and AdamW.

#include <cmath>
#include <cstdint>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

/// Adam (Kingma & Ba 2015, Algorithm 1: the bias of v is corrected before epsilon is added).
/// In step t, counted from 1, for parameter p with gradient g and moments m and v, in place:
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
///   p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon).
/// Adam first adds weight decay * p to g. AdamW (Loshchilov & Hutter 2019, Algorithm 2) instead
/// subtracts lr * weight decay * p from the parameter.
template <typename T>
struct AdamFormula {
  T beta1;
  T beta2;
  T corrected_rate;  ///< learning rate / (1 - beta1^t)
  T root_v_factor;   ///< factor of sqrt(v): 1 / sqrt(1 - beta2^t)
  T epsilon;
  /// For Adam (L2): weight_decay * parameter is added to the gradient. 0 for AdamW.
  T weight_decay;
  /// For AdamW (decoupled): the parameter is first multiplied by this, 1 - learning rate * weight
  /// decay. 1 for Adam.
  T decay_factor;
  T gradient_scale;  ///< the gradient is first multiplied by this

  DLRUN_HOST_DEVICE void operator()(T& p, T g, T& m, T& v) const {
    g = gradient_scale * g + weight_decay * p;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    p = decay_factor * p - corrected_rate * m / (std::sqrt(v) * root_v_factor + epsilon);
  }
};

}  // namespace dlrun::trainer

#ifndef __CUDACC__  // nvcc needs only the formula, and compiles it as C++17

#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {

/// Adam, or AdamW if the weight decay is decoupled.
template <typename T, bool kIsDecoupled>
class AdamRule final : public Optimizer<T> {
 public:
  explicit AdamRule(const OptimizerOptions& options) : options_(options) {}

  [[nodiscard]] std::span<const StateArrayInfo> states() const override {
    static constexpr std::array<StateArrayInfo, 2> kStates{{{"m"}, {"v"}}};
    return kStates;
  }

  void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const override {
    kernels.update(formula(info), slice.arrays());
  }

  /// Returns the formula with the coefficients of a step, which are computed in double.
  [[nodiscard]] AdamFormula<T> formula(const StepInfo& info) const {
    const auto t = static_cast<double>(info.step);
    const double decay = *options_.weight_decay;
    return {static_cast<T>(*options_.beta1),
            static_cast<T>(*options_.beta2),
            static_cast<T>(info.learning_rate / (1 - std::pow(*options_.beta1, t))),
            static_cast<T>(1 / std::sqrt(1 - std::pow(*options_.beta2, t))),
            static_cast<T>(*options_.epsilon),
            static_cast<T>(kIsDecoupled ? 0 : decay),
            static_cast<T>(kIsDecoupled ? 1 - info.learning_rate * decay : 1),
            static_cast<T>(info.gradient_scale)};
  }

 private:
  OptimizerOptions options_;
};

template <typename T>
using Adam = AdamRule<T, false>;
template <typename T>
using AdamW = AdamRule<T, true>;

}  // namespace dlrun::trainer
#endif
