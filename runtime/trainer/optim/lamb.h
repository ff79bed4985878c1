#pragma once
// LAMB: layer-wise Adam.

#include <cmath>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

/// Computes the direction u, which LAMB (You et al. 2020, Algorithm 2) then scales per layer. In
/// step t, counted from 1, for parameter p with gradient g and moments m and v:
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
///   u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay p.
/// u replaces g in the array of gradients; the parameters do not change.
template <typename T>
struct LambFormula {
  T beta1;
  T beta2;
  T m_factor;       ///< factor of m: 1 / (1 - beta1^t)
  T root_v_factor;  ///< factor of sqrt(v): 1 / sqrt(1 - beta2^t)
  T epsilon;
  T weight_decay;    ///< decoupled: weight_decay * parameter is a part of the direction
  T gradient_scale;  ///< the gradient is first multiplied by this

  DLRUN_HOST_DEVICE void operator()(T p, T& g_then_u, T& m, T& v) const {
    const T g = gradient_scale * g_then_u;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    g_then_u = m_factor * m / (std::sqrt(v) * root_v_factor + epsilon) + weight_decay * p;
  }
};

}  // namespace dlrun::trainer

#ifndef __CUDACC__  // nvcc needs only the formula, and compiles it as C++17

#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {

/// Layer-wise Adam (You et al. 2020, Algorithm 2, with phi(z) = z). The step of a weight tensor w
/// is -lr (|w| / |u|) u, where u is Adam's direction and includes the decay. If |w| or |u| is 0,
/// the step is -lr u. The step of biases and scales is -lr u, without decay.
template <typename T>
class Lamb final : public Optimizer<T> {
 public:
  explicit Lamb(const OptimizerOptions& options) : options_(options) {}

  [[nodiscard]] std::span<const StateArrayInfo> states() const override {
    static constexpr std::array<StateArrayInfo, 2> kStates{{{"m"}, {"v"}}};
    return kStates;
  }
  [[nodiscard]] bool needs_whole_tensors() const override { return true; }

  void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const override {
    const auto t = static_cast<double>(info.step);
    LambFormula<T> direction{
        .beta1 = static_cast<T>(*options_.beta1),
        .beta2 = static_cast<T>(*options_.beta2),
        .m_factor = static_cast<T>(1 / (1 - std::pow(*options_.beta1, t))),
        .root_v_factor = static_cast<T>(1 / std::sqrt(1 - std::pow(*options_.beta2, t))),
        .epsilon = static_cast<T>(*options_.epsilon),
        .weight_decay = 0,
        .gradient_scale = static_cast<T>(info.gradient_scale),
    };
    for (const TensorRange& tensor : slice.tensors) {
      direction.weight_decay = static_cast<T>(tensor.is_weight ? *options_.weight_decay : 0);
      kernels.update(direction, slice.arrays(tensor));
    }
    std::vector<double> weight_squares(slice.tensors.size());
    std::vector<double> direction_squares(slice.tensors.size());
    kernels.sums_of_squares(slice.parameters, slice.tensors, weight_squares.data());
    kernels.sums_of_squares(slice.gradients, slice.tensors, direction_squares.data());
    for (std::size_t i = 0; i < slice.tensors.size(); ++i) {
      const TensorRange& tensor = slice.tensors[i];
      const bool is_scaled = tensor.is_weight && weight_squares[i] > 0 && direction_squares[i] > 0;
      const double ratio =
          is_scaled ? std::sqrt(weight_squares[i]) / std::sqrt(direction_squares[i]) : 1;
      kernels.add_scaled(slice.parameters + tensor.begin,
                         static_cast<T>(-info.learning_rate * ratio),
                         slice.gradients + tensor.begin, tensor.count);
    }
  }

 private:
  OptimizerOptions options_;
};

}  // namespace dlrun::trainer
#endif
