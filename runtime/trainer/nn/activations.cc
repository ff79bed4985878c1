#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

/// A layer that applies a function to each element. The derivative can be computed from the
/// function's value.
template <typename T>
class Activation : public Layer<T> {
 public:
  Activation(std::string name, std::size_t width) : name_(std::move(name)), width_(width) {}

  [[nodiscard]] std::string description() const final { return name_; }
  [[nodiscard]] std::size_t outputs() const final { return width_; }
  [[nodiscard]] bool can_work_in_place() const final { return true; }
  [[nodiscard]] bool reads_output() const final { return true; }
  [[nodiscard]] bool can_run_in_parts() const final { return true; }

  void forward(const LayerCall<T>& call, const T* x, T* y) const final {
    apply(call.kernels, x, y, call.n * width_);
  }
  void backward(const LayerCall<T>& call, const T* /*x*/, const T* y, const T* dy, T* /*gradients*/,
                T* dx) const final {
    if (dx != nullptr) apply_derivative(call.kernels, y, dy, dx, call.n * width_);
  }

 private:
  virtual void apply(Kernels<T>& kernels, const T* x, T* y, std::size_t count) const = 0;
  virtual void apply_derivative(Kernels<T>& kernels, const T* y, const T* dy, T* dx,
                                std::size_t count) const = 0;

  std::string name_;
  std::size_t width_;
};

template <typename T>
class Relu final : public Activation<T> {
 public:
  explicit Relu(std::size_t width) : Activation<T>("relu", width) {}
  [[nodiscard]] bool is_relu() const override { return true; }

 private:
  void apply(Kernels<T>& kernels, const T* x, T* y, std::size_t count) const override {
    kernels.relu(x, y, count);
  }
  void apply_derivative(Kernels<T>& kernels, const T* y, const T* dy, T* dx,
                        std::size_t count) const override {
    kernels.relu_backward(y, dy, dx, count);
  }
};

template <typename T>
class Tanh final : public Activation<T> {
 public:
  explicit Tanh(std::size_t width) : Activation<T>("tanh", width) {}

 private:
  void apply(Kernels<T>& kernels, const T* x, T* y, std::size_t count) const override {
    kernels.layer_kernels().hyperbolic_tangent(x, y, count);
  }
  void apply_derivative(Kernels<T>& kernels, const T* y, const T* dy, T* dx,
                        std::size_t count) const override {
    kernels.layer_kernels().hyperbolic_tangent_backward(y, dy, dx, count);
  }
};

template <typename T>
class Sigmoid final : public Activation<T> {
 public:
  explicit Sigmoid(std::size_t width) : Activation<T>("sigmoid", width) {}

 private:
  void apply(Kernels<T>& kernels, const T* x, T* y, std::size_t count) const override {
    kernels.layer_kernels().logistic(x, y, count);
  }
  void apply_derivative(Kernels<T>& kernels, const T* y, const T* dy, T* dx,
                        std::size_t count) const override {
    kernels.layer_kernels().logistic_backward(y, dy, dx, count);
  }
};

/// y = x logistic(x). Its derivative needs x, so the layer cannot overwrite its input.
template <typename T>
class Silu final : public Layer<T> {
 public:
  explicit Silu(std::size_t width) : width_(width) {}

  [[nodiscard]] std::string description() const override { return "silu"; }
  [[nodiscard]] std::size_t outputs() const override { return width_; }
  [[nodiscard]] bool can_run_in_parts() const override { return true; }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    call.kernels.layer_kernels().silu(x, y, call.n * width_);
  }
  void backward(const LayerCall<T>& call, const T* x, const T* /*y*/, const T* dy, T* /*gradients*/,
                T* dx) const override {
    if (dx != nullptr) call.kernels.layer_kernels().silu_backward(x, dy, dx, call.n * width_);
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

template <typename T>
std::unique_ptr<Layer<T>> make_tanh(std::size_t width) {
  return std::make_unique<Tanh<T>>(width);
}
template std::unique_ptr<Layer<float>> make_tanh(std::size_t);
template std::unique_ptr<Layer<double>> make_tanh(std::size_t);

template <typename T>
std::unique_ptr<Layer<T>> make_sigmoid(std::size_t width) {
  return std::make_unique<Sigmoid<T>>(width);
}
template std::unique_ptr<Layer<float>> make_sigmoid(std::size_t);
template std::unique_ptr<Layer<double>> make_sigmoid(std::size_t);

template <typename T>
std::unique_ptr<Layer<T>> make_silu(std::size_t width) {
  return std::make_unique<Silu<T>>(width);
}
template std::unique_ptr<Layer<float>> make_silu(std::size_t);
template std::unique_ptr<Layer<double>> make_silu(std::size_t);

}  // namespace dlrun::trainer
