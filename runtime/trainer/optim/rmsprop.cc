#include "runtime/trainer/optim/rmsprop.h"

#include <array>

#include "runtime/trainer/optim/rules.h"

namespace dlrun::trainer {
namespace {

template <typename T>
class Rmsprop final : public Optimizer<T> {
 public:
  explicit Rmsprop(const OptimizerOptions& options) : options_(options) {}

  [[nodiscard]] std::span<const std::string_view> states() const override {
    static constexpr std::array<std::string_view, 2> kStates{"v", "velocity"};
    return std::span(kStates).first(*options_.momentum == 0 ? 1 : 2);
  }

  void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const override {
    const RmspropCoefficients<T> coefficients{
        .rate = static_cast<T>(info.learning_rate),
        .alpha = static_cast<T>(options_.alpha),
        .epsilon = static_cast<T>(*options_.epsilon),
        .momentum = static_cast<T>(*options_.momentum),
        .weight_decay = static_cast<T>(*options_.weight_decay),
        .gradient_scale = static_cast<T>(info.gradient_scale),
    };
    kernels.rmsprop(slice.parameters, slice.gradients, slice.states[0],
                    slice.states.size() > 1 ? slice.states[1] : nullptr, slice.count, coefficients);
  }

 private:
  OptimizerOptions options_;
};

}  // namespace

template <typename T>
std::unique_ptr<Optimizer<T>> make_rmsprop(const OptimizerOptions& options) {
  return std::make_unique<Rmsprop<T>>(options);
}
template std::unique_ptr<Optimizer<float>> make_rmsprop(const OptimizerOptions&);
template std::unique_ptr<Optimizer<double>> make_rmsprop(const OptimizerOptions&);

}  // namespace dlrun::trainer
