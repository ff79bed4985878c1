#pragma once
// NovoGrad: descent with momentum on gradients that are normalised layer by layer. Uses the formula
// of SGD.

#include <cmath>

#include "runtime/trainer/optim/optimizer.h"
#include "runtime/trainer/optim/sgd.h"

namespace dlrun::trainer {

/// NovoGrad (Ginsburg et al. 2019, "Stochastic Gradient Methods with Layer-wise Adaptive Moments",
/// Algorithm 1), as NVIDIA implements it (NeMo, without gradient averaging). For each tensor, also
/// for biases and scales:
///   v = |g|^2 if v is 0, else beta2 v + (1 - beta2) |g|^2,
///   m = beta1 m + g / (sqrt(v) + epsilon) + weight_decay p,
///   p = p - lr m.
/// v is one number for each tensor, so the state needs half of Adam's memory.
template <typename T>
class Novograd final : public Optimizer<T> {
 public:
  explicit Novograd(const OptimizerOptions& options) : options_(options) {}

  [[nodiscard]] std::span<const StateArrayInfo> states() const override {
    static constexpr std::array<StateArrayInfo, 2> kStates{
        {{.name = "m"}, {.name = "v", .is_per_tensor = true}}};
    return kStates;
  }
  [[nodiscard]] bool needs_whole_tensors() const override { return true; }

  void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const override {
    const std::vector<T> v = update_second_moments(kernels, slice, info.gradient_scale);
    for (std::size_t i = 0; i < slice.tensors.size(); ++i) {
      const TensorRange& tensor = slice.tensors[i];
      const double divisor = std::sqrt(static_cast<double>(v[i])) + *options_.epsilon;
      kernels.update(
          SgdFormula<T>{
              .rate = static_cast<T>(info.learning_rate),
              .momentum = static_cast<T>(*options_.beta1),
              .weight_decay = static_cast<T>(*options_.weight_decay),
              .gradient_scale = static_cast<T>(info.gradient_scale / divisor),
          },
          {.parameters = slice.parameters + tensor.begin,
           .gradients = slice.gradients + tensor.begin,
           .first = slice.states[0] + tensor.begin,
           .count = tensor.count});
    }
  }

 private:
  /// Updates v on the device and returns v, [tensors]. Rounds v to T before the step uses it, so
  /// that a run that resumes from a checkpoint gets the same bits.
  std::vector<T> update_second_moments(Kernels<T>& kernels, const Slice<T>& slice,
                                       double gradient_scale) const {
    std::vector<double> squares(slice.tensors.size());
    kernels.sums_of_squares(slice.gradients, slice.tensors, squares.data());
    std::vector<T> v(slice.tensors.size());
    kernels.copy_to_host(v.data(), slice.states[1], v.size() * sizeof(T));
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double square = gradient_scale * gradient_scale * squares[i];
      const double beta2 = *options_.beta2;
      v[i] = static_cast<T>(v[i] == 0 ? square : beta2 * v[i] + (1 - beta2) * square);
    }
    kernels.copy_from_host(slice.states[1], v.data(), v.size() * sizeof(T));
    return v;
  }

  OptimizerOptions options_;
};

}  // namespace dlrun::trainer
