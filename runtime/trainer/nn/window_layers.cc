// Layers that move a window over an image: convolution and pooling.

#include <fmt/core.h>

#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

/// A convolution, depthwise or not.
template <typename T>
class Conv2d final : public Layer<T> {
 public:
  Conv2d(const Window& window, Initialisation initialisation, bool has_bias)
      : window_(window), initialisation_(initialisation), has_bias_(has_bias) {}

  [[nodiscard]] std::string description() const override {
    const std::size_t size = window_.size;
    return window_.is_depthwise
               ? fmt::format("depthwise {}x{}", size, size)
               : fmt::format("conv2d {} {}x{}", window_.output.channels, size, size);
  }
  [[nodiscard]] std::size_t outputs() const override { return window_.output.size(); }
  [[nodiscard]] bool can_run_in_parts() const override { return true; }
  [[nodiscard]] bool can_fuse_relu() const override { return true; }

  [[nodiscard]] std::vector<NamedShape> parameters() const override {
    std::vector<NamedShape> all{{"weight", {window_.size, window_.size}}};
    if (!window_.is_depthwise) all[0].shape.push_back(window_.input.channels);
    all[0].shape.push_back(window_.output.channels);
    if (has_bias_) all.push_back({"bias", {window_.output.channels}});
    return all;
  }

  void initialise(std::span<T> parameters, Random& random) const override {
    const std::size_t positions = window_.size * window_.size;
    draw_weights(parameters, window_.weight_count(),
                 positions * (window_.is_depthwise ? 1 : window_.input.channels),
                 positions * (window_.is_depthwise ? 1 : window_.output.channels), initialisation_,
                 random);
  }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    call.kernels.layer_kernels().convolve(
        window_, call.n, x, call.parameters,
        has_bias_ ? call.parameters + window_.weight_count() : nullptr, call.with_relu, y);
  }

  void backward(const LayerCall<T>& call, const T* x, const T* /*y*/, const T* dy, T* gradients,
                T* dx) const override {
    if (call.n == 0) {
      call.kernels.zero(gradients,
                        window_.weight_count() + (has_bias_ ? window_.output.channels : 0));
      return;
    }
    call.kernels.layer_kernels().convolve_backward_weights(
        window_, call.n, x, dy, gradients,
        has_bias_ ? gradients + window_.weight_count() : nullptr);
    if (dx != nullptr)
      call.kernels.layer_kernels().convolve_backward_input(window_, call.n, call.parameters, dy,
                                                           dx);
  }

 private:
  Window window_;
  Initialisation initialisation_;
  bool has_bias_;
};

template <typename T>
class MaxPool final : public Layer<T> {
 public:
  explicit MaxPool(const Window& window) : window_(window) {}

  [[nodiscard]] std::string description() const override {
    return fmt::format("maxpool {}", window_.size);
  }
  [[nodiscard]] std::size_t outputs() const override { return window_.output.size(); }
  [[nodiscard]] bool can_run_in_parts() const override { return true; }
  [[nodiscard]] bool reads_output() const override { return true; }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    call.kernels.layer_kernels().max_pool(window_, call.n, x, y);
  }
  void backward(const LayerCall<T>& call, const T* x, const T* y, const T* dy, T* /*gradients*/,
                T* dx) const override {
    if (dx != nullptr)
      call.kernels.layer_kernels().max_pool_backward(window_, call.n, x, y, dy, dx);
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
  [[nodiscard]] bool can_run_in_parts() const override { return true; }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    call.kernels.layer_kernels().average_pool(window_, call.n, x, y);
  }
  void backward(const LayerCall<T>& call, const T* /*x*/, const T* /*y*/, const T* dy,
                T* /*gradients*/, T* dx) const override {
    if (dx != nullptr) call.kernels.layer_kernels().average_pool_backward(window_, call.n, dy, dx);
  }

 private:
  Window window_;
};

/// The mean of each channel over the whole image.
template <typename T>
class GlobalAveragePool final : public Layer<T> {
 public:
  explicit GlobalAveragePool(const ImageShape& image) : image_(image) {}

  [[nodiscard]] std::string description() const override { return "avgpool all"; }
  [[nodiscard]] std::size_t outputs() const override { return image_.channels; }
  [[nodiscard]] bool can_run_in_parts() const override { return true; }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    call.kernels.layer_kernels().channel_means(call.n, image_.height * image_.width,
                                               image_.channels, x, y);
  }
  void backward(const LayerCall<T>& call, const T* /*x*/, const T* /*y*/, const T* dy,
                T* /*gradients*/, T* dx) const override {
    if (dx == nullptr) return;
    call.kernels.layer_kernels().channel_means_backward(call.n, image_.height * image_.width,
                                                        image_.channels, dy, false, dx);
  }

 private:
  ImageShape image_;
};

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> make_conv2d(const Window& window, Initialisation initialisation,
                                      bool has_bias) {
  return std::make_unique<Conv2d<T>>(window, initialisation, has_bias);
}
template std::unique_ptr<Layer<float>> make_conv2d(const Window&, Initialisation, bool);
template std::unique_ptr<Layer<double>> make_conv2d(const Window&, Initialisation, bool);

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

template <typename T>
std::unique_ptr<Layer<T>> make_global_average_pool(const ImageShape& image) {
  return std::make_unique<GlobalAveragePool<T>>(image);
}
template std::unique_ptr<Layer<float>> make_global_average_pool(const ImageShape&);
template std::unique_ptr<Layer<double>> make_global_average_pool(const ImageShape&);

}  // namespace dlrun::trainer
