#include "runtime/trainer/optim/lamb.h"

#include <array>
#include <cmath>
#include <vector>

#include "runtime/trainer/optim/rules.h"

namespace dlrun::trainer {
namespace {

/// Layer-wise Adam (You et al. 2020, Algorithm 2, with phi(z) = z). A weight w moves along
/// Adam's direction u (which includes the decay) by lr * |w| / |u|. Biases and scales move by
/// lr u and do not decay.
template <typename T>
class Lamb final : public Optimizer<T> {
 public:
  explicit Lamb(const OptimizerOptions& options) : options_(options) {}

  [[nodiscard]] std::span<const std::string_view> states() const override {
    static constexpr std::array<std::string_view, 2> kStates{"m", "v"};
    return kStates;
  }
  [[nodiscard]] bool needs_whole_tensors() const override { return true; }

  void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const override {
    const auto steps = static_cast<double>(info.step);
    LambCoefficients<T> coefficients{
        .beta1 = static_cast<T>(options_.beta1),
        .beta2 = static_cast<T>(options_.beta2),
        .mean = static_cast<T>(1 / (1 - std::pow(options_.beta1, steps))),
        .root = static_cast<T>(1 / std::sqrt(1 - std::pow(options_.beta2, steps))),
        .epsilon = static_cast<T>(*options_.epsilon),
        .weight_decay = 0,
        .gradient_scale = static_cast<T>(info.gradient_scale),
    };
    for (const TensorPart& part : slice.tensors) {
      coefficients.weight_decay = static_cast<T>(part.is_weight ? *options_.weight_decay : 0);
      kernels.lamb_direction(slice.parameters + part.begin, slice.gradients + part.begin,
                             slice.states[0] + part.begin, slice.states[1] + part.begin, part.count,
                             coefficients);
    }
    std::vector<double> weights(slice.tensors.size());
    std::vector<double> directions(slice.tensors.size());
    kernels.sums_of_squares(slice.parameters, slice.tensors, weights.data());
    kernels.sums_of_squares(slice.gradients, slice.tensors, directions.data());
    for (std::size_t i = 0; i < slice.tensors.size(); ++i) {
      const TensorPart& part = slice.tensors[i];
      const bool is_scaled = part.is_weight && weights[i] > 0 && directions[i] > 0;
      const double ratio = is_scaled ? std::sqrt(weights[i]) / std::sqrt(directions[i]) : 1;
      kernels.add_scaled(slice.parameters + part.begin, static_cast<T>(-info.learning_rate * ratio),
                         slice.gradients + part.begin, part.count);
    }
  }

 private:
  OptimizerOptions options_;
};

}  // namespace

template <typename T>
std::unique_ptr<Optimizer<T>> make_lamb(const OptimizerOptions& options) {
  return std::make_unique<Lamb<T>>(options);
}
template std::unique_ptr<Optimizer<float>> make_lamb(const OptimizerOptions&);
template std::unique_ptr<Optimizer<double>> make_lamb(const OptimizerOptions&);

}  // namespace dlrun::trainer
