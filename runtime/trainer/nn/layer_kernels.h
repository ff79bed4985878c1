#pragma once
// What the layers of convolutional networks need of a device beyond kernels.h. The CPU has it, through oneDNN; a device
// without it trains dense networks only.
//
// Images lie row by row, a pixel's channels together: [n x height x width x channels] (NHWC), so that a byte image of
// one channel needs no reordering, and a pooling loop runs over neighbouring channels.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"

namespace dlrun::trainer {

struct ImageShape {
  std::size_t height = 1;
  std::size_t width = 1;
  std::size_t channels = 1;

  [[nodiscard]] std::size_t size() const { return height * width * channels; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// A square window that moves over images. output = (input + 2 padding - size) / stride + 1, in either direction.
struct Window {
  ImageShape input;
  ImageShape output;
  std::size_t size = 1;
  std::size_t stride = 1;
  std::size_t padding = 0;  ///< zeros on each side; 0 for pooling

  friend bool operator==(const Window&, const Window&) = default;
};

template <typename T>
class LayerKernels {
 public:
  virtual ~LayerKernels() = default;
  LayerKernels(const LayerKernels&) = delete;
  LayerKernels& operator=(const LayerKernels&) = delete;

  /// How many samples to take through several layers at a time, so that what one leaves the next still finds in the
  /// processor's cache. bytes: of the largest array among them, a sample. At least 1.
  [[nodiscard]] virtual std::size_t samples_at_once(std::size_t bytes) const = 0;

  /// Cross-correlation, as all frameworks' convolution: y[i, r, c, o] = bias[o] +
  /// sum over a, b, k of x[i, r stride + a - padding, c stride + b - padding, k] w[a, b, k, o].
  /// x: [n x input], w: [size x size x input.channels x output.channels], y: [n x output]. n > 0. with_relu: y is then
  /// max(y, 0), to the bit what Kernels::relu makes of it.
  virtual void convolve(const Window& window, std::size_t n, const T* x, const T* w, const T* bias, bool with_relu,
                        T* y) = 0;
  /// dx = dL/dx from dy = dL/dy.
  virtual void convolve_backward_input(const Window& window, std::size_t n, const T* w, const T* dy, T* dx) = 0;
  /// dw = dL/dw, dbias = dL/dbias, overwritten.
  virtual void convolve_backward_weights(const Window& window, std::size_t n, const T* x, const T* dy, T* dw,
                                         T* dbias) = 0;

  /// y = the largest of each window, channel by channel; channels do not change.
  virtual void max_pool(const Window& window, std::size_t n, const T* x, T* y) = 0;
  /// Each dy goes to the first of its window's largest elements.
  virtual void max_pool_backward(const Window& window, std::size_t n, const T* x, const T* y, const T* dy, T* dx) = 0;
  /// y = the mean of each window.
  virtual void average_pool(const Window& window, std::size_t n, const T* x, T* y) = 0;
  virtual void average_pool_backward(const Window& window, std::size_t n, const T* dy, T* dx) = 0;

  // Batch normalisation of [rows x channels]; all other arrays are [channels], pairs of them [2 x channels].
  /// sums = the sum over rows of x - shift, then that of its square; in double, in an order that threads do not change.
  virtual void channel_sums(const T* x, const T* shift, std::size_t rows, std::size_t channels, double* sums) = 0;
  /// y = (x - mean) scale gamma + beta.
  virtual void normalise(const T* x, const T* mean, const T* scale, const T* gamma, const T* beta, std::size_t rows,
                         std::size_t channels, T* y) = 0;
  /// sums = the sum over rows of dy, then that of dy (x - mean) scale; as channel_sums.
  virtual void normalise_backward_sums(const T* x, const T* dy, const T* mean, const T* scale, std::size_t rows,
                                       std::size_t channels, double* sums) = 0;
  /// dx = gamma scale (dy - means[0] - (x - mean) scale means[1]).
  virtual void normalise_backward_input(const T* x, const T* dy, const T* mean, const T* scale, const T* gamma,
                                        const T* means, std::size_t rows, std::size_t channels, T* dx) = 0;

  /// Binary cross-entropy of each logit's logistic function against a label of 0 or 1, a sample's mean over its
  /// classes, in the form that neither overflows nor cancels: max(x, 0) - x y + log(1 + exp(-|x|)). logits, labels: [n
  /// x classes]. Adds the samples' sum to totals[0], and to totals[1] the sum of their parts of right answers (x > 0
  /// says 1). With gradient not nullptr: gradient = (logistic(logits) - labels) * scale / classes.
  virtual void sigmoid_cross_entropy(const T* logits, const std::uint8_t* labels, std::size_t n, std::size_t classes,
                                     T scale, T* gradient, T* totals) = 0;

  // Element by element; x and y, dy and dx may be the same array.
  virtual void hyperbolic_tangent(const T* x, T* y, std::size_t count) = 0;
  virtual void hyperbolic_tangent_backward(const T* y, const T* dy, T* dx, std::size_t count) = 0;
  virtual void logistic(const T* x, T* y, std::size_t count) = 0;
  virtual void logistic_backward(const T* y, const T* dy, T* dx, std::size_t count) = 0;
  virtual void multiply(const T* a, const T* b, T* product, std::size_t count) = 0;
  virtual void add(const T* a, const T* b, T* sum, std::size_t count) = 0;

  /// The implementations that the library chose for the convolutions so far, such as "jit:avx512_core".
  [[nodiscard]] virtual std::vector<std::string> implementations() const = 0;

  /// The first error of the library, kInternal.
  [[nodiscard]] virtual Result<> status() const = 0;

 protected:
  LayerKernels() = default;
};

/// The CPU's: oneDNN's convolutions for float, plain loops for double. threads: as of the Kernels that it belongs to.
template <typename T>
[[nodiscard]] std::unique_ptr<LayerKernels<T>> make_cpu_layer_kernels(int threads);

}  // namespace dlrun::trainer
