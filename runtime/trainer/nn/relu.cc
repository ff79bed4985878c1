#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

template <typename T>
class Relu final : public Layer<T> {
 public:
  explicit Relu(std::size_t width) : width_(width) {}

  [[nodiscard]] std::string_view kind() const override { return "relu"; }
  [[nodiscard]] std::size_t outputs() const override { return width_; }

  void forward(Kernels<T>& kernels, const T* /*parameters*/, const T* x, T* y, std::size_t n) const override {
    kernels.relu(x, y, n * width_);
  }

  void backward(Kernels<T>& kernels, const T* /*parameters*/, const T* /*x*/, const T* y, const T* dy, T* /*gradients*/,
                T* dx, std::size_t n) const override {
    if (dx != nullptr) kernels.relu_backward(y, dy, dx, n * width_);
  }

 private:
  std::size_t width_;
};

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> make_relu(std::size_t width) {
  return std::make_unique<Relu<T>>(width);
}
template std::unique_ptr<Layer<float>> make_relu(std::size_t);
template std::unique_ptr<Layer<double>> make_relu(std::size_t);

}  // namespace dlrun::trainer
