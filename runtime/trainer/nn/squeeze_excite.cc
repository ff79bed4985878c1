// Squeeze and excitation (Hu, Shen & Sun 2018, section 3): the means of all channels go through two
// dense layers, which compute a factor for each channel.

#include <fmt/core.h>

#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

/// Computes, with C channels and N squeezed channels: s = means of x, h = silu(s W1 + b1),
/// f = logistic(h W2 + b2), y = x f.
template <typename T>
class SqueezeExcite final : public Layer<T> {
 public:
  SqueezeExcite(std::size_t pixels, std::size_t channels, std::size_t squeezed_channels)
      : pixels_(pixels), channels_(channels), squeezed_channels_(squeezed_channels) {}

  [[nodiscard]] std::string description() const override {
    return fmt::format("squeeze-excite {}", squeezed_channels_);
  }
  [[nodiscard]] std::size_t outputs() const override { return pixels_ * channels_; }
  /// Returns the number of elements for s, f, df, ds [C each], and s W1 + b1, h, dh [N each].
  [[nodiscard]] std::size_t workspace_size() const override {
    return 4 * aligned_elements(channels_) + 3 * aligned_elements(squeezed_channels_);
  }

  [[nodiscard]] std::vector<NamedShape> parameters() const override {
    return {{"squeeze.weight", {channels_, squeezed_channels_}},
            {"squeeze.bias", {squeezed_channels_}},
            {"expand.weight", {squeezed_channels_, channels_}},
            {"expand.bias", {channels_}}};
  }
  void initialise(std::span<T> parameters, Random& random) const override {
    const std::size_t weight_count = channels_ * squeezed_channels_;
    draw_weights(parameters.first(weight_count + squeezed_channels_), weight_count, channels_,
                 squeezed_channels_, Initialisation::kHe, random);
    draw_weights(parameters.subspan(weight_count + squeezed_channels_), weight_count,
                 squeezed_channels_, channels_, Initialisation::kGlorot, random);
  }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    const Arrays a = arrays(call);
    LayerKernels<T>& kernels = call.kernels.layer_kernels();
    kernels.channel_means(call.n, pixels_, channels_, x, a.means);
    call.kernels.dense(
        call.n, channels_, squeezed_channels_, a.means, squeeze_part(call.parameters),
        squeeze_part(call.parameters) + channels_ * squeezed_channels_, false, a.squeezed);
    kernels.silu(a.squeezed, a.hidden, call.n * squeezed_channels_);
    call.kernels.dense(
        call.n, squeezed_channels_, channels_, a.hidden, expand_part(call.parameters),
        expand_part(call.parameters) + channels_ * squeezed_channels_, false, a.factors);
    kernels.logistic(a.factors, a.factors, call.n * channels_);
    kernels.scale_channels(call.n, pixels_, channels_, x, a.factors, y);
  }

  void backward(const LayerCall<T>& call, const T* x, const T* /*y*/, const T* dy, T* gradients,
                T* dx) const override {
    const Arrays a = arrays(call);
    const std::size_t n = call.n;
    LayerKernels<T>& kernels = call.kernels.layer_kernels();
    kernels.channel_products(n, pixels_, channels_, x, dy, a.dfactors);
    kernels.logistic_backward(a.factors, a.dfactors, a.dfactors, n * channels_);
    dense_parameter_gradients(call, a.hidden, a.dfactors, squeezed_channels_, channels_,
                              expand_part(gradients));
    if (n > 0) {
      call.kernels.gemm(Transpose::kNo, Transpose::kYes, n, squeezed_channels_, channels_,
                        a.dfactors, expand_part(call.parameters), 0, a.dhidden);
    }
    kernels.silu_backward(a.squeezed, a.dhidden, a.dhidden, n * squeezed_channels_);
    dense_parameter_gradients(call, a.means, a.dhidden, channels_, squeezed_channels_,
                              squeeze_part(gradients));
    if (dx == nullptr || n == 0) return;
    call.kernels.gemm(Transpose::kNo, Transpose::kYes, n, channels_, squeezed_channels_, a.dhidden,
                      squeeze_part(call.parameters), 0, a.dmeans);
    kernels.scale_channels(n, pixels_, channels_, dy, a.factors, dx);
    kernels.channel_means_backward(n, pixels_, channels_, a.dmeans, true, dx);
  }

 private:
  /// The arrays in the workspace. means: s; factors: first h W2 + b2, then f; squeezed: s W1 + b1;
  /// hidden: h. The others are the gradients of these arrays.
  struct Arrays {
    T *means, *factors, *dfactors, *dmeans, *squeezed, *hidden, *dhidden;
  };
  [[nodiscard]] Arrays arrays(const LayerCall<T>& call) const {
    const std::size_t wide = call.n * aligned_elements(channels_);
    const std::size_t narrow = call.n * aligned_elements(squeezed_channels_);
    T* const first = call.workspace;
    T* const second = first + 4 * wide;
    return {first,  first + wide,    first + 2 * wide,   first + 3 * wide,
            second, second + narrow, second + 2 * narrow};
  }

  /// Returns the part of the parameters or gradients that belongs to the first dense layer.
  template <typename Number>
  [[nodiscard]] Number* squeeze_part(Number* all) const {
    return all;
  }
  /// Returns the part of the parameters or gradients that belongs to the second dense layer.
  template <typename Number>
  [[nodiscard]] Number* expand_part(Number* all) const {
    return all + channels_ * squeezed_channels_ + squeezed_channels_;
  }

  /// Computes the gradients of weights [inputs x outputs] and biases from x and dy.
  static void dense_parameter_gradients(const LayerCall<T>& call, const T* x, const T* dy,
                                        std::size_t inputs, std::size_t outputs, T* gradients) {
    call.kernels.gemm(Transpose::kYes, Transpose::kNo, inputs, outputs, call.n, x, dy, 0,
                      gradients);
    call.kernels.sum_columns(dy, gradients + inputs * outputs, call.n, outputs);
  }

  std::size_t pixels_;  // height x width
  std::size_t channels_;
  std::size_t squeezed_channels_;
};

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> make_squeeze_excite(std::size_t pixels, std::size_t channels,
                                              std::size_t squeezed_channels) {
  return std::make_unique<SqueezeExcite<T>>(pixels, channels, squeezed_channels);
}
template std::unique_ptr<Layer<float>> make_squeeze_excite(std::size_t, std::size_t, std::size_t);
template std::unique_ptr<Layer<double>> make_squeeze_excite(std::size_t, std::size_t, std::size_t);

}  // namespace dlrun::trainer
