// Layers that move a window over an image: convolution and pooling.

#include <fmt/core.h>

#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

template <typename T>
class Conv2d final : public Layer<T> {
 public:
  Conv2d(const Window& window, Initialisation initialisation)
      : window_(window), initialisation_(initialisation) {}

  [[nodiscard]] std::string description() const override {
    return fmt::format("conv2d {} {}x{}", window_.output.channels, window_.size, window_.size);
  }
  [[nodiscard]] std::size_t outputs() const override { return window_.output.size(); }
  [[nodiscard]] bool goes_in_parts() const override { return true; }
  [[nodiscard]] bool takes_relu() const override { return true; }

  [[nodiscard]] std::vector<ParameterShape> parameters() const override {
    return {
        {"weight", {window_.size, window_.size, window_.input.channels, window_.output.channels}},
        {"bias", {window_.output.channels}}};
  }

  void initialise(std::span<T> parameters, Random& random) const override {
    const std::size_t places = window_.size * window_.size;
    draw_weights(parameters, weights(), places * window_.input.channels,
                 places * window_.output.channels, initialisation_, random);
  }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    call.kernels.layers().convolve(window_, call.n, x, call.parameters, call.parameters + weights(),
                                   call.with_relu, y);
  }

  void backward(const LayerCall<T>& call, const T* x, const T* /*y*/, const T* dy, T* gradients,
                T* dx) const override {
    if (call.n == 0) {
      call.kernels.zero(gradients, weights() + window_.output.channels);
      return;
    }
    call.kernels.layers().convolve_backward_weights(window_, call.n, x, dy, gradients,
                                                    gradients + weights());
    if (dx != nullptr)
      call.kernels.layers().convolve_backward_input(window_, call.n, call.parameters, dy, dx);
  }

 private:
  [[nodiscard]] std::size_t weights() const {
    return window_.size * window_.size * window_.input.channels * window_.output.channels;
  }

  Window window_;
  Initialisation initialisation_;
};

template <typename T>
class MaxPool final : public Layer<T> {
 public:
  explicit MaxPool(const Window& window) : window_(window) {}

  [[nodiscard]] std::string description() const override {
    return fmt::format("maxpool {}", window_.size);
  }
  [[nodiscard]] std::size_t outputs() const override { return window_.output.size(); }
  [[nodiscard]] bool goes_in_parts() const override { return true; }
  [[nodiscard]] bool reads_output() const override { return true; }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    call.kernels.layers().max_pool(window_, call.n, x, y);
  }
  void backward(const LayerCall<T>& call, const T* x, const T* y, const T* dy, T* /*gradients*/,
                T* dx) const override {
    if (dx != nullptr) call.kernels.layers().max_pool_backward(window_, call.n, x, y, dy, dx);
  }

 private:
  Window window_;
};

template <typename T>
class AveragePool final : public Layer<T> {
 public:
  explicit AveragePool(const Window& window) : window_(window) {}

  [[nodiscard]] std::string description() const override {
    return fmt::format("avgpool {}", window_.size);
  }
  [[nodiscard]] std::size_t outputs() const override { return window_.output.size(); }
  [[nodiscard]] bool goes_in_parts() const override { return true; }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    call.kernels.layers().average_pool(window_, call.n, x, y);
  }
  void backward(const LayerCall<T>& call, const T* /*x*/, const T* /*y*/, const T* dy,
                T* /*gradients*/, T* dx) const override {
    if (dx != nullptr) call.kernels.layers().average_pool_backward(window_, call.n, dy, dx);
  }

 private:
  Window window_;
};

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> make_conv2d(const Window& window, Initialisation initialisation) {
  return std::make_unique<Conv2d<T>>(window, initialisation);
}
template std::unique_ptr<Layer<float>> make_conv2d(const Window&, Initialisation);
template std::unique_ptr<Layer<double>> make_conv2d(const Window&, Initialisation);

template <typename T>
std::unique_ptr<Layer<T>> make_max_pool(const Window& window) {
  return std::make_unique<MaxPool<T>>(window);
}
template std::unique_ptr<Layer<float>> make_max_pool(const Window&);
template std::unique_ptr<Layer<double>> make_max_pool(const Window&);

template <typename T>
std::unique_ptr<Layer<T>> make_average_pool(const Window& window) {
  return std::make_unique<AveragePool<T>>(window);
}
template std::unique_ptr<Layer<float>> make_average_pool(const Window&);
template std::unique_ptr<Layer<double>> make_average_pool(const Window&);

}  // namespace dlrun::trainer
