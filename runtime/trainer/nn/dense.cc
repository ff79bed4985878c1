#include <cmath>

#include <fmt/core.h>

#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

template <typename T>
class Dense final : public Layer<T> {
 public:
  Dense(std::size_t inputs, std::size_t outputs, Initialisation initialisation)
      : inputs_(inputs), outputs_(outputs), initialisation_(initialisation) {}

  [[nodiscard]] std::string description() const override {
    return fmt::format("dense {}", outputs_);
  }
  [[nodiscard]] std::size_t outputs() const override { return outputs_; }
  [[nodiscard]] bool can_fuse_relu() const override { return true; }

  [[nodiscard]] std::vector<NamedShape> parameters() const override {
    return {{"weight", {inputs_, outputs_}}, {"bias", {outputs_}}};
  }

  void initialise(std::span<T> parameters, Random& random) const override {
    draw_weights(parameters, inputs_ * outputs_, inputs_, outputs_, initialisation_, random);
  }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    call.kernels.dense(call.n, inputs_, outputs_, x, call.parameters,
                       call.parameters + inputs_ * outputs_, call.with_relu, y);
  }

  void backward(const LayerCall<T>& call, const T* x, const T* /*y*/, const T* dy, T* gradients,
                T* dx) const override {
    // Compute dW = x^T dy, db = the sum of dy's rows, dx = dy W^T.
    call.kernels.gemm(Transpose::kYes, Transpose::kNo, inputs_, outputs_, call.n, x, dy, 0,
                      gradients);
    call.kernels.sum_columns(dy, gradients + inputs_ * outputs_, call.n, outputs_);
    if (dx != nullptr && call.n > 0) {
      call.kernels.gemm(Transpose::kNo, Transpose::kYes, call.n, inputs_, outputs_, dy,
                        call.parameters, 0, dx);
    }
  }

 private:
  std::size_t inputs_;
  std::size_t outputs_;
  Initialisation initialisation_;
};

}  // namespace

template <typename T>
void draw_weights(std::span<T> parameters, std::size_t weight_count, std::size_t fan_in,
                  std::size_t fan_out, Initialisation scheme, Random& random) {
  const auto in = static_cast<double>(fan_in);
  const auto out = static_cast<double>(fan_out);
  const double variance = scheme == Initialisation::kHe ? 2 / in : 2 / (in + out);
  // A uniform number in [-bound, bound) has variance bound^2 / 3.
  const double bound = std::sqrt(3 * variance);
  for (T& weight : parameters.first(weight_count))
    weight = static_cast<T>(random.uniform(-bound, bound));
  for (T& bias : parameters.subspan(weight_count)) bias = 0;
}
template void draw_weights(std::span<float>, std::size_t, std::size_t, std::size_t, Initialisation,
                           Random&);
template void draw_weights(std::span<double>, std::size_t, std::size_t, std::size_t, Initialisation,
                           Random&);

template <typename T>
std::unique_ptr<Layer<T>> make_dense(std::size_t inputs, std::size_t outputs,
                                     Initialisation initialisation) {
  return std::make_unique<Dense<T>>(inputs, outputs, initialisation);
}
template std::unique_ptr<Layer<float>> make_dense(std::size_t, std::size_t, Initialisation);
template std::unique_ptr<Layer<double>> make_dense(std::size_t, std::size_t, Initialisation);

}  // namespace dlrun::trainer
