#include <cmath>

#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

template <typename T>
class Dense final : public Layer<T> {
 public:
  Dense(std::size_t inputs, std::size_t outputs, Initialisation initialisation)
      : inputs_(inputs), outputs_(outputs), initialisation_(initialisation) {}

  [[nodiscard]] std::string_view kind() const override { return "dense"; }
  [[nodiscard]] std::size_t outputs() const override { return outputs_; }

  [[nodiscard]] std::vector<ParameterShape> parameters() const override {
    return {{"weight", {inputs_, outputs_}}, {"bias", {outputs_}}};
  }

  void initialise(std::span<T> parameters, Random& random) const override {
    const auto in = static_cast<double>(inputs_);
    const auto out = static_cast<double>(outputs_);
    const double variance = initialisation_ == Initialisation::kHe ? 2 / in : 2 / (in + out);
    const double bound = std::sqrt(3 * variance);  // a uniform number in [-bound, bound) has variance bound^2 / 3
    for (T& weight : parameters.first(inputs_ * outputs_)) weight = static_cast<T>(random.uniform(-bound, bound));
    for (T& bias : parameters.subspan(inputs_ * outputs_)) bias = 0;
  }

  void forward(Kernels<T>& kernels, const T* parameters, const T* x, T* y, std::size_t n) const override {
    kernels.gemm(Transpose::kNo, Transpose::kNo, n, outputs_, inputs_, x, parameters, 0, y);  // y = x W
    kernels.add_bias(y, parameters + inputs_ * outputs_, n, outputs_);
  }

  void backward(Kernels<T>& kernels, const T* parameters, const T* x, const T* /*y*/, const T* dy, T* gradients, T* dx,
                std::size_t n) const override {
    kernels.gemm(Transpose::kYes, Transpose::kNo, inputs_, outputs_, n, x, dy, 0, gradients);  // dW = x^T dy
    kernels.sum_rows(dy, gradients + inputs_ * outputs_, n, outputs_);                         // db = sum of dy's rows
    if (dx != nullptr && n > 0) {
      kernels.gemm(Transpose::kNo, Transpose::kYes, n, inputs_, outputs_, dy, parameters, 0, dx);  // dx = dy W^T
    }
  }

 private:
  std::size_t inputs_;
  std::size_t outputs_;
  Initialisation initialisation_;
};

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> make_dense(std::size_t inputs, std::size_t outputs, Initialisation initialisation) {
  return std::make_unique<Dense<T>>(inputs, outputs, initialisation);
}
template std::unique_ptr<Layer<float>> make_dense(std::size_t, std::size_t, Initialisation);
template std::unique_ptr<Layer<double>> make_dense(std::size_t, std::size_t, Initialisation);

}  // namespace dlrun::trainer
