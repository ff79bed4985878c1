#pragma once
// Device operations for the layers of convolutional networks, in addition to kernels.h. The CPU
// uses oneDNN and its own loops; the GPU uses cuDNN and its own kernels. Pointers refer to device
// memory unless a comment mentions host memory.
//
// Images are stored by rows with the channels of a pixel side by side: [n x height x width x
// channels] (NHWC). An image with one channel therefore needs no reordering, and pooling loops run
// over adjacent channels.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/image_change.h"
#include "runtime/trainer/nn/window.h"

namespace dlrun::trainer {

/// Replaces each number by its sum over all ranks. All ranks must call it. Host memory.
using SumOverRanks = std::function<void(std::span<double>)>;

template <typename T>
class LayerKernels {
 public:
  virtual ~LayerKernels() = default;
  LayerKernels(const LayerKernels&) = delete;
  LayerKernels& operator=(const LayerKernels&) = delete;

  /// Returns the number of samples to pass through several layers at a time, so that the next layer
  /// finds the data in the processor's cache. `bytes_per_sample` is the size of one sample in the
  /// largest array of these layers. The result is at least 1.
  [[nodiscard]] virtual std::size_t samples_per_part(std::size_t bytes_per_sample) const = 0;

  /// Computes a cross-correlation, which frameworks call convolution:
  ///   y[i, r, c, o] = bias[o] + sum over a, b, k of
  ///                    x[i, r stride + a - padding, c stride + b - padding, k] w[a, b, k, o].
  /// For a depthwise window, the sum has only the terms with k == o. x: [n x input], w: [size x
  /// size x input.channels x output.channels], or depthwise [size x size x output.channels], bias:
  /// [output.channels] or nullptr for zeros, y: [n x output]. n > 0. If with_relu is true, y then
  /// becomes max(y, 0), with the same bits as Kernels::relu.
  virtual void convolve(const Window& window, std::size_t n, const T* x, const T* w, const T* bias,
                        bool with_relu, T* y) = 0;
  /// Computes dx = dL/dx, [n x input], from dy = dL/dy, [n x output]. n > 0.
  virtual void convolve_backward_input(const Window& window, std::size_t n, const T* w, const T* dy,
                                       T* dx) = 0;
  /// Computes dw = dL/dw, shaped like w, and dbias = dL/dbias, [output.channels], unless dbias is
  /// nullptr. Overwrites both. n > 0.
  virtual void convolve_backward_weights(const Window& window, std::size_t n, const T* x,
                                         const T* dy, T* dw, T* dbias) = 0;

  /// Computes y = the maximum of each window, per channel. x: [n x input], y: [n x output].
  virtual void max_pool(const Window& window, std::size_t n, const T* x, T* y) = 0;
  /// Computes dx = dL/dx, [n x input]: adds each dy to the first largest element of its window,
  /// after setting dx to 0.
  virtual void max_pool_backward(const Window& window, std::size_t n, const T* x, const T* y,
                                 const T* dy, T* dx) = 0;
  /// Computes y = the mean of each window, per channel. x: [n x input], y: [n x output].
  virtual void average_pool(const Window& window, std::size_t n, const T* x, T* y) = 0;
  /// Computes dx = dL/dx, [n x input]: adds dy / size^2 to each element of a window, after setting
  /// dx to 0.
  virtual void average_pool_backward(const Window& window, std::size_t n, const T* dy, T* dx) = 0;

  // Means and factors of whole channels. `pixels` is the number of pixels of an image. x, y, dx,
  // dy: [n x pixels x channels]; means, factors, products and dmeans: [n x channels]. The terms
  // of a sum are added in the order of the pixels.

  /// Computes means = the mean of x over the pixels.
  virtual void channel_means(std::size_t n, std::size_t pixels, std::size_t channels, const T* x,
                             T* means) = 0;
  /// Computes dx = dmeans / pixels for each pixel; with is_added, computes dx += dmeans / pixels.
  virtual void channel_means_backward(std::size_t n, std::size_t pixels, std::size_t channels,
                                      const T* dmeans, bool is_added, T* dx) = 0;
  /// Computes y = x times the factor of sample and channel. x and y may be the same array.
  virtual void scale_channels(std::size_t n, std::size_t pixels, std::size_t channels, const T* x,
                              const T* factors, T* y) = 0;
  /// Computes products = the sum of x dy over the pixels: dL/dfactors of scale_channels.
  virtual void channel_products(std::size_t n, std::size_t pixels, std::size_t channels, const T* x,
                                const T* dy, T* products) = 0;

  // Batch normalisation (Ioffe & Szegedy 2015, Algorithm 1) of x, y, dx, dy: [rows x channels].
  // statistics (mean, scale), parameters (gamma, beta), gradients, running and observed (mean,
  // variance) and means are [2 x channels]. Sums are in double, in an order that does not depend on
  // threads. sum_over_ranks adds the sums over all ranks whose batches are normalised together; it
  // is nullptr if each rank normalises only its own batch.

  /// Computes statistics = the mean of the rows, then 1 / sqrt(variance + epsilon). The sums are
  /// relative to the running mean, which is equal on all ranks, so the variance is not a difference
  /// of two large numbers. Unless observed is nullptr, also adds sample_fraction times mean and
  /// unbiased variance to observed. sample_fraction: the number of samples of this call divided by
  /// the number of samples of the step. A rank without rows only participates in the sum.
  virtual void batch_statistics(const T* x, std::size_t rows, std::size_t channels,
                                const SumOverRanks* sum_over_ranks, double sample_fraction,
                                const T* running, T* statistics, T* observed) = 0;
  /// Computes the statistics from the running mean and variance.
  virtual void statistics_from_running(const T* running, std::size_t channels, T* statistics) = 0;
  /// Computes y = (x - mean) scale gamma + beta, then max(y, 0) if with_relu.
  virtual void normalise(const T* x, const T* statistics, const T* parameters, std::size_t rows,
                         std::size_t channels, bool with_relu, T* y) = 0;
  /// Computes gradients = the sums of dy (x - mean) scale, then of dy, over this rank's rows.
  /// Computes means = the means of dy, then of dy (x - mean) scale, over the rows of all ranks.
  virtual void normalise_backward_sums(const T* x, const T* dy, const T* statistics,
                                       std::size_t rows, std::size_t channels,
                                       const SumOverRanks* sum_over_ranks, T* gradients,
                                       T* means) = 0;
  /// Computes dx = gamma scale (dy - m0 - (x - mean) scale m1), where m0 and m1 are the halves of
  /// `means`.
  virtual void normalise_backward_input(const T* x, const T* dy, const T* statistics,
                                        const T* gamma, const T* means, std::size_t rows,
                                        std::size_t channels, T* dx) = 0;

  /// Computes factors[i, j] = 0 if number j of the random stream (seed, Purpose::kDropout, key ^
  /// samples[i]) is below rate, else 1 / (1 - rate). All devices give the same bits. samples: host
  /// memory; if `samples` has fewer than n elements, i replaces the missing samples[i]. factors: [n
  /// x width].
  virtual void dropout_factors(std::uint64_t seed, std::uint64_t key,
                               std::span<const std::uint32_t> samples, std::size_t n,
                               std::size_t width, double rate, T* factors) = 0;

  /// Mirrors, turns and shifts each image: y[i] = changed_element() of x[i]. changes: host memory,
  /// [n]. x, y: [n x shape], which must not overlap.
  virtual void change_images(const ImageShape& shape, std::span<const ImageChange> changes,
                             const T* x, T* y) = 0;

  /// Computes the binary cross-entropy of the logistic function of each logit against a label of 0
  /// or 1 (any label but 0 counts as 1). A sample's loss is the mean over its classes. For a logit
  /// x and a label y, uses a form that neither overflows nor cancels:
  ///   max(x, 0) - x y + log(1 + exp(-|x|)).
  /// logits, labels: [n x classes]. Adds the sum over samples to totals[0], and the sum of each
  /// sample's fraction of right answers (a logit above 0 means 1) to totals[1]. If gradient is not
  /// nullptr, also computes gradient, [n x classes], = (logistic(logits) - labels) * scale /
  /// classes.
  virtual void sigmoid_cross_entropy(const T* logits, const std::uint8_t* labels, std::size_t n,
                                     std::size_t classes, T scale, T* gradient, T* totals) = 0;

  /// Compares the answers (a logit above 0 means 1) with the labels, for samples that may have
  /// several labels. Adds to counts, [3 x classes]: first the true positives, then the false
  /// positives, then the false negatives. Does not count true negatives. logits, labels: [n x
  /// classes].
  virtual void count_confusions(const T* logits, const std::uint8_t* labels, std::size_t n,
                                std::size_t classes, std::uint32_t* counts) = 0;

  // Functions of single elements. All arrays: [count]. x and y may be the same array, except for
  // silu, whose backward reads x; dy and dx may be the same array.
  /// Computes y = tanh(x).
  virtual void hyperbolic_tangent(const T* x, T* y, std::size_t count) = 0;
  /// Computes dx = dy (1 - y^2).
  virtual void hyperbolic_tangent_backward(const T* y, const T* dy, T* dx, std::size_t count) = 0;
  /// Computes y = 1 / (1 + exp(-x)).
  virtual void logistic(const T* x, T* y, std::size_t count) = 0;
  /// Computes dx = dy y (1 - y).
  virtual void logistic_backward(const T* y, const T* dy, T* dx, std::size_t count) = 0;
  /// Computes y = x logistic(x) (Elfwing, Uchibe & Doya 2018, section 2).
  virtual void silu(const T* x, T* y, std::size_t count) = 0;
  /// Computes dx = dy s (1 + x (1 - s)), with s = logistic(x).
  virtual void silu_backward(const T* x, const T* dy, T* dx, std::size_t count) = 0;
  /// Computes product = a b.
  virtual void multiply(const T* a, const T* b, T* product, std::size_t count) = 0;
  /// Computes sum = a + b, then max(sum, 0) if with_relu.
  virtual void add(const T* a, const T* b, bool with_relu, T* sum, std::size_t count) = 0;
  /// Computes y = x.
  virtual void copy(const T* x, T* y, std::size_t count) = 0;

  /// Returns the names of the implementations that have computed convolutions so far, for example
  /// "jit:avx512_core" (oneDNN) or "winograd".
  [[nodiscard]] virtual std::vector<std::string> implementations() const = 0;

  /// Returns the error of the first operation that failed, with kInternal, or success.
  [[nodiscard]] virtual Result<> status() const = 0;

 protected:
  LayerKernels() = default;
};

/// Creates the CPU's operations: fast convolutions for float (cpu_convolutions.h), plain loops for
/// double. `threads` must equal the number of threads of the Kernels that use the result.
template <typename T>
[[nodiscard]] std::unique_ptr<LayerKernels<T>> make_cpu_layer_kernels(int threads);

}  // namespace dlrun::trainer
