#pragma once
// RMSprop.

#include <cmath>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

/// RMSprop (Tieleman & Hinton 2012, lecture 6.5). Updates each parameter p in place. g is its
/// gradient after scaling and weight decay, and v the moving average of g^2:
///   v = alpha v + (1 - alpha) g^2,  p = p - lr g / (sqrt(v) + epsilon).
/// If the momentum is not 0, a second state array holds a velocity (Graves 2013, eq. 38-45, but
/// without the mean of the gradients):
///   velocity = momentum velocity + g / (sqrt(v) + epsilon),  p = p - lr velocity.
template <typename T>
struct RmspropFormula {
  T rate;   ///< learning rate
  T alpha;  ///< factor of the old mean square
  T epsilon;
  T momentum;
  T weight_decay;    ///< L2: weight_decay * parameter is added to the gradient
  T gradient_scale;  ///< the gradient is first multiplied by this

  DLRUN_HOST_DEVICE void operator()(T& p, T g, T& v) const {
    g = gradient_scale * g + weight_decay * p;
    v = alpha * v + (1 - alpha) * g * g;
    p -= rate * g / (std::sqrt(v) + epsilon);
  }

  DLRUN_HOST_DEVICE void operator()(T& p, T g, T& v, T& velocity) const {
    g = gradient_scale * g + weight_decay * p;
    v = alpha * v + (1 - alpha) * g * g;
    velocity = momentum * velocity + g / (std::sqrt(v) + epsilon);
    p -= rate * velocity;
  }
};

}  // namespace dlrun::trainer

#ifndef __CUDACC__  // nvcc needs only the formula, and compiles it as C++17

#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {

template <typename T>
class Rmsprop final : public Optimizer<T> {
 public:
  explicit Rmsprop(const OptimizerOptions& options) : options_(options) {}

  [[nodiscard]] std::span<const StateArrayInfo> states() const override {
    static constexpr std::array<StateArrayInfo, 2> kStates{{{"v"}, {"velocity"}}};
    return std::span(kStates).first(*options_.momentum == 0 ? 1 : 2);
  }

  void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const override {
    kernels.update(
        RmspropFormula<T>{
            .rate = static_cast<T>(info.learning_rate),
            .alpha = static_cast<T>(options_.alpha),
            .epsilon = static_cast<T>(*options_.epsilon),
            .momentum = static_cast<T>(*options_.momentum),
            .weight_decay = static_cast<T>(*options_.weight_decay),
            .gradient_scale = static_cast<T>(info.gradient_scale),
        },
        slice.arrays());
  }

 private:
  OptimizerOptions options_;
};

}  // namespace dlrun::trainer
#endif
