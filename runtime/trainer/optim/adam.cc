#include "runtime/trainer/optim/adam.h"

#include <array>

#include "runtime/trainer/optim/rules.h"

namespace dlrun::trainer {
namespace {

template <typename T>
class Adam final : public Optimizer<T> {
 public:
  explicit Adam(const OptimizerOptions& options) : options_(options) {}

  [[nodiscard]] std::span<const std::string_view> states() const override {
    static constexpr std::array<std::string_view, 2> kStates{"m", "v"};
    return kStates;
  }

  void step(Kernels<T>& kernels, T* parameters, const T* gradients, std::span<T* const> states, std::size_t count,
            double learning_rate, std::uint64_t step) const override {
    kernels.adam(parameters, gradients, states[0], states[1], count,
                 adam_coefficients<T>(learning_rate, options_.beta1, options_.beta2, options_.epsilon,
                                      options_.weight_decay, step));
  }

 private:
  OptimizerOptions options_;
};

}  // namespace

template <typename T>
std::unique_ptr<Optimizer<T>> make_adam(const OptimizerOptions& options) {
  return std::make_unique<Adam<T>>(options);
}
template std::unique_ptr<Optimizer<float>> make_adam(const OptimizerOptions&);
template std::unique_ptr<Optimizer<double>> make_adam(const OptimizerOptions&);

}  // namespace dlrun::trainer
