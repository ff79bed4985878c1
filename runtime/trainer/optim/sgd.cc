#include "runtime/trainer/optim/sgd.h"

#include <array>

#include "runtime/trainer/optim/rules.h"

namespace dlrun::trainer {
namespace {

template <typename T>
class Sgd final : public Optimizer<T> {
 public:
  Sgd(const OptimizerOptions& options, bool looks_ahead)
      : options_(options), looks_ahead_(looks_ahead) {}

  [[nodiscard]] std::span<const std::string_view> states() const override {
    static constexpr std::array<std::string_view, 1> kStates{"velocity"};
    return *options_.momentum == 0 ? std::span<const std::string_view>() : kStates;
  }

  void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const override {
    SgdCoefficients<T> coefficients{
        .rate = static_cast<T>(info.learning_rate),
        .momentum = static_cast<T>(*options_.momentum),
        .weight_decay = static_cast<T>(*options_.weight_decay),
        .gradient_scale = static_cast<T>(info.gradient_scale),
    };
    if (looks_ahead_) {
      coefficients.of_gradient = 1;
      coefficients.of_velocity = coefficients.momentum;
    }
    kernels.sgd(slice.parameters, slice.gradients, slice.states.empty() ? nullptr : slice.states[0],
                slice.count, coefficients);
  }

 private:
  OptimizerOptions options_;
  bool looks_ahead_;  // Nesterov's momentum
};

}  // namespace

template <typename T>
std::unique_ptr<Optimizer<T>> make_sgd(const OptimizerOptions& options) {
  return std::make_unique<Sgd<T>>(options, false);
}
template std::unique_ptr<Optimizer<float>> make_sgd(const OptimizerOptions&);
template std::unique_ptr<Optimizer<double>> make_sgd(const OptimizerOptions&);

template <typename T>
std::unique_ptr<Optimizer<T>> make_nesterov(const OptimizerOptions& options) {
  return std::make_unique<Sgd<T>>(options, true);
}
template std::unique_ptr<Optimizer<float>> make_nesterov(const OptimizerOptions&);
template std::unique_ptr<Optimizer<double>> make_nesterov(const OptimizerOptions&);

}  // namespace dlrun::trainer
