#include "runtime/trainer/optim/sgd.h"

#include <array>

#include "runtime/trainer/optim/rules.h"

namespace dlrun::trainer {
namespace {

template <typename T>
class Sgd final : public Optimizer<T> {
 public:
  explicit Sgd(const OptimizerOptions& options) : options_(options) {}

  [[nodiscard]] std::span<const std::string_view> states() const override {
    static constexpr std::array<std::string_view, 1> kStates{"velocity"};
    return options_.momentum == 0 ? std::span<const std::string_view>() : kStates;
  }

  void step(Kernels<T>& kernels, T* parameters, const T* gradients, std::span<T* const> states, std::size_t count,
            double learning_rate, std::uint64_t /*step*/) const override {
    const SgdCoefficients<T> coefficients{static_cast<T>(learning_rate), static_cast<T>(options_.momentum),
                                          static_cast<T>(options_.weight_decay)};
    kernels.sgd(parameters, gradients, states.empty() ? nullptr : states[0], count, coefficients);
  }

 private:
  OptimizerOptions options_;
};

}  // namespace

template <typename T>
std::unique_ptr<Optimizer<T>> make_sgd(const OptimizerOptions& options) {
  return std::make_unique<Sgd<T>>(options);
}
template std::unique_ptr<Optimizer<float>> make_sgd(const OptimizerOptions&);
template std::unique_ptr<Optimizer<double>> make_sgd(const OptimizerOptions&);

}  // namespace dlrun::trainer
