#pragma once
// LARS: layer-wise learning rates for descent with momentum. Uses the formula of SGD.

#include <cmath>

#include "runtime/trainer/optim/optimizer.h"
#include "runtime/trainer/optim/sgd.h"

namespace dlrun::trainer {

/// Layer-wise adaptive rate scaling (You, Gitman & Ginsburg 2017, Algorithm 1). A weight tensor w
/// with gradient g has the rate lr * trust * |w| / (|g| + weight_decay |w|), or lr if w or g is 0.
/// Biases and scales have the rate lr and no weight decay, as in the authors' training.
template <typename T>
class Lars final : public Optimizer<T> {
 public:
  explicit Lars(const OptimizerOptions& options) : options_(options) {}

  [[nodiscard]] std::span<const StateArrayInfo> states() const override {
    static constexpr std::array<StateArrayInfo, 1> kStates{{{"velocity"}}};
    return kStates;
  }
  [[nodiscard]] bool needs_whole_tensors() const override { return true; }

  void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const override {
    std::vector<double> weight_squares(slice.tensors.size());
    std::vector<double> gradient_squares(slice.tensors.size());
    kernels.sums_of_squares(slice.parameters, slice.tensors, weight_squares.data());
    kernels.sums_of_squares(slice.gradients, slice.tensors, gradient_squares.data());
    for (std::size_t i = 0; i < slice.tensors.size(); ++i) {
      const TensorRange& tensor = slice.tensors[i];
      const double trust_ratio =
          tensor.is_weight ? trust_ratio_of(std::sqrt(weight_squares[i]),
                                            info.gradient_scale * std::sqrt(gradient_squares[i]))
                           : 1;
      kernels.update(
          SgdFormula<T>{
              .rate = 1,
              .momentum = static_cast<T>(*options_.momentum),
              .weight_decay = static_cast<T>(tensor.is_weight ? *options_.weight_decay : 0),
              .gradient_scale = static_cast<T>(info.gradient_scale),
              .inner_rate = static_cast<T>(info.learning_rate * trust_ratio),
          },
          slice.arrays(tensor));
    }
  }

 private:
  /// Returns the factor of the learning rate for a weight tensor.
  [[nodiscard]] double trust_ratio_of(double weight_norm, double gradient_norm) const {
    // A tensor of zeros would have the ratio 0 and stay at zero. A gradient of zeros without weight
    // decay would divide by 0.
    if (weight_norm == 0 || gradient_norm == 0) return 1;
    return options_.trust * weight_norm / (gradient_norm + *options_.weight_decay * weight_norm);
  }

  OptimizerOptions options_;
};

}  // namespace dlrun::trainer
