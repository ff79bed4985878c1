#include "runtime/trainer/optim/adam.h"

#include <array>

#include "runtime/trainer/optim/rules.h"

namespace dlrun::trainer {
namespace {

template <typename T>
class Adam final : public Optimizer<T> {
 public:
  Adam(const OptimizerOptions& options, bool is_decoupled)
      : options_(options), is_decoupled_(is_decoupled) {}

  [[nodiscard]] std::span<const std::string_view> states() const override {
    static constexpr std::array<std::string_view, 2> kStates{"m", "v"};
    return kStates;
  }

  void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const override {
    kernels.adam(slice.parameters, slice.gradients, slice.states[0], slice.states[1], slice.count,
                 adam_coefficients<T>(info.learning_rate, options_.beta1, options_.beta2,
                                      *options_.epsilon, *options_.weight_decay, is_decoupled_,
                                      info.gradient_scale, info.step));
  }

 private:
  OptimizerOptions options_;
  bool is_decoupled_;  // AdamW: the weight decay is separate from the gradient
};

}  // namespace

template <typename T>
std::unique_ptr<Optimizer<T>> make_adam(const OptimizerOptions& options) {
  return std::make_unique<Adam<T>>(options, false);
}
template std::unique_ptr<Optimizer<float>> make_adam(const OptimizerOptions&);
template std::unique_ptr<Optimizer<double>> make_adam(const OptimizerOptions&);

template <typename T>
std::unique_ptr<Optimizer<T>> make_adamw(const OptimizerOptions& options) {
  return std::make_unique<Adam<T>>(options, true);
}
template std::unique_ptr<Optimizer<float>> make_adamw(const OptimizerOptions&);
template std::unique_ptr<Optimizer<double>> make_adamw(const OptimizerOptions&);

}  // namespace dlrun::trainer
