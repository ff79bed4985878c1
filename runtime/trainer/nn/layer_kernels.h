#pragma once
// What the layers of convolutional networks need of a device beyond kernels.h: on the CPU through
// oneDNN, on a GPU through cuDNN and kernels of our own. Pointers are to memory of the device,
// unless they are said to be the host's.
//
// Images lie row by row, a pixel's channels together: [n x height x width x channels] (NHWC), so
// that a byte image of one channel needs no reordering, and a pooling loop runs over neighbouring
// channels.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/window.h"

namespace dlrun::trainer {

/// Replaces each number by its sum over all ranks; every rank calls it alike. Host memory.
using SumOverRanks = std::function<void(std::span<double>)>;

template <typename T>
class LayerKernels {
 public:
  virtual ~LayerKernels() = default;
  LayerKernels(const LayerKernels&) = delete;
  LayerKernels& operator=(const LayerKernels&) = delete;

  /// How many samples to take through several layers at a time, so that what one leaves the next
  /// still finds in the processor's cache. bytes: of the largest array among them, a sample. At
  /// least 1.
  [[nodiscard]] virtual std::size_t samples_at_once(std::size_t bytes) const = 0;

  /// Cross-correlation, as all frameworks' convolution: y[i, r, c, o] = bias[o] +
  /// sum over a, b, k of x[i, r stride + a - padding, c stride + b - padding, k] w[a, b, k, o].
  /// x: [n x input], w: [size x size x input.channels x output.channels], y: [n x output]. n > 0.
  /// with_relu: y is then max(y, 0), to the bit what Kernels::relu makes of it.
  virtual void convolve(const Window& window, std::size_t n, const T* x, const T* w, const T* bias,
                        bool with_relu, T* y) = 0;
  /// dx = dL/dx from dy = dL/dy.
  virtual void convolve_backward_input(const Window& window, std::size_t n, const T* w, const T* dy,
                                       T* dx) = 0;
  /// dw = dL/dw, dbias = dL/dbias, overwritten.
  virtual void convolve_backward_weights(const Window& window, std::size_t n, const T* x,
                                         const T* dy, T* dw, T* dbias) = 0;

  /// y = the largest of each window, channel by channel; channels do not change.
  virtual void max_pool(const Window& window, std::size_t n, const T* x, T* y) = 0;
  /// Each dy goes to the first of its window's largest elements.
  virtual void max_pool_backward(const Window& window, std::size_t n, const T* x, const T* y,
                                 const T* dy, T* dx) = 0;
  /// y = the mean of each window.
  virtual void average_pool(const Window& window, std::size_t n, const T* x, T* y) = 0;
  virtual void average_pool_backward(const Window& window, std::size_t n, const T* dy, T* dx) = 0;

  // Batch normalisation of [rows x channels]. statistics, parameters, gradients, running, observed,
  // means: pairs of channels, [2 x channels]. Sums are taken in double, in an order that threads do
  // not change; sum_over_ranks adds them up over what is normalised together, nullptr: this rank's
  // rows are all.
  /// statistics = the rows' mean, then 1 / sqrt(variance + epsilon), from sums about running's
  /// mean, which all ranks share: the variance is no difference of two large numbers. Unless it is
  /// nullptr, observed += share times mean and unbiased variance. Without rows of its own a rank
  /// takes part in the sum, and nothing else happens.
  virtual void batch_statistics(const T* x, std::size_t rows, std::size_t channels,
                                const SumOverRanks* sum_over_ranks, double share, const T* running,
                                T* statistics, T* observed) = 0;
  /// statistics of running mean and variance.
  virtual void running_statistics(const T* running, std::size_t channels, T* statistics) = 0;
  /// y = (x - mean) scale gamma + beta.
  virtual void normalise(const T* x, const T* statistics, const T* parameters, std::size_t rows,
                         std::size_t channels, T* y) = 0;
  /// gradients = the sum over this rank's rows of dy (x - mean) scale, then that of dy; means = of
  /// all rows' dy, then of their dy (x - mean) scale.
  virtual void normalise_backward_sums(const T* x, const T* dy, const T* statistics,
                                       std::size_t rows, std::size_t channels,
                                       const SumOverRanks* sum_over_ranks, T* gradients,
                                       T* means) = 0;
  /// dx = gamma scale (dy - means[0] - (x - mean) scale means[1]).
  virtual void normalise_backward_input(const T* x, const T* dy, const T* statistics,
                                        const T* gamma, const T* means, std::size_t rows,
                                        std::size_t channels, T* dx) = 0;

  /// factors[i, j] = 0 where number j of the stream (seed, Purpose::kDropout, key ^ sample i) is
  /// below rate, else 1 / (1 - rate); to the bit the same on every device. samples: host memory;
  /// behind its end sample i is i. factors: [n x width].
  virtual void dropout_factors(std::uint64_t seed, std::uint64_t key,
                               std::span<const std::uint32_t> samples, std::size_t n,
                               std::size_t width, double rate, T* factors) = 0;

  /// Binary cross-entropy of each logit's logistic function against a label of 0 or 1, a sample's
  /// mean over its classes, in the form that neither overflows nor cancels: max(x, 0) - x y + log(1
  /// + exp(-|x|)). logits, labels: [n x classes]. Adds the samples' sum to totals[0], and to
  /// totals[1] the sum of their parts of right answers (x > 0 says 1). With gradient not nullptr:
  /// gradient = (logistic(logits) - labels) * scale / classes.
  virtual void sigmoid_cross_entropy(const T* logits, const std::uint8_t* labels, std::size_t n,
                                     std::size_t classes, T scale, T* gradient, T* totals) = 0;

  // Element by element; x and y, dy and dx may be the same array.
  virtual void hyperbolic_tangent(const T* x, T* y, std::size_t count) = 0;
  virtual void hyperbolic_tangent_backward(const T* y, const T* dy, T* dx, std::size_t count) = 0;
  virtual void logistic(const T* x, T* y, std::size_t count) = 0;
  virtual void logistic_backward(const T* y, const T* dy, T* dx, std::size_t count) = 0;
  virtual void multiply(const T* a, const T* b, T* product, std::size_t count) = 0;
  virtual void add(const T* a, const T* b, T* sum, std::size_t count) = 0;
  virtual void copy(const T* x, T* y, std::size_t count) = 0;

  /// The implementations that the library chose for the convolutions so far, such as
  /// "jit:avx512_core".
  [[nodiscard]] virtual std::vector<std::string> implementations() const = 0;

  /// The first error of the library, kInternal.
  [[nodiscard]] virtual Result<> status() const = 0;

 protected:
  LayerKernels() = default;
};

/// The CPU's: oneDNN's convolutions for float, plain loops for double. threads: as of the Kernels
/// that it belongs to.
template <typename T>
[[nodiscard]] std::unique_ptr<LayerKernels<T>> make_cpu_layer_kernels(int threads);

}  // namespace dlrun::trainer
