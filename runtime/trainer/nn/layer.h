#pragma once
// The interface of a layer: a function of its input and its parameters, and the derivative of that
// function.
//
// A layer owns no memory. The network provides the layer's part of the flat parameter and gradient
// arrays, the input and output arrays, and a workspace whose content does not change between
// forward and backward of a batch.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer_kernels.h"

namespace dlrun::trainer {

/// A tensor of parameters or of statistics, with its name in checkpoints, for example "weight"
/// [784, 512].
struct NamedShape {
  std::string name;
  std::vector<std::size_t> shape;

  [[nodiscard]] std::size_t count() const {
    std::size_t product = 1;
    for (const std::size_t size : shape) product *= size;
    return product;
  }
};

/// Rounds up the number of elements per sample of an array, so that the memory after any number of
/// samples is aligned to 16 bytes: cuDNN reads images in vectors.
constexpr std::size_t aligned_elements(std::size_t elements) {
  return (elements + 3) / 4 * 4;
}

/// Properties of a batch that a layer may need.
struct BatchInfo {
  bool is_training = false;
  std::uint64_t seed = 0;  ///< the run's seed, for dropout
  std::uint64_t step = 0;  ///< the optimizer's step, from 0
  /// Indices of the samples in the data set; empty if not needed.
  std::span<const std::uint32_t> samples{};
  /// Number of samples in all micro-batches of the step: those of all ranks, or those of this rank
  /// if it steps with its own gradients (StepScope::divisor). 0: the samples of this call only.
  std::size_t step_samples = 0;
  const SumOverRanks* sum_over_ranks = nullptr;  ///< nullptr if there is only one rank
};

/// Arguments common to forward and backward. n is the number of samples of the call: those of this
/// rank's batch or micro-batch, or of a part of one of these if Layer::can_run_in_parts().
template <typename T>
struct LayerCall {
  Kernels<T>& kernels;
  const T* parameters = nullptr;
  T* workspace = nullptr;  ///< [n x Layer::workspace_size()]
  std::size_t n = 0;
  const BatchInfo& batch;
  /// Running statistics of earlier batches, in the order of Layer::running_statistics().
  const T* running = nullptr;
  /// During training, forward adds the statistics of this call's samples to this array. The
  /// statistics are weighted, so that their sum over all calls of a step on all ranks gives the
  /// statistics of the step. May be nullptr.
  T* observed = nullptr;
  /// True if forward also applies the ReLU that follows this layer; see Layer::can_fuse_relu().
  bool with_relu = false;
};

template <typename T>
class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  [[nodiscard]] virtual std::string description() const = 0;  ///< for example "dense 512"
  [[nodiscard]] virtual std::size_t outputs() const = 0;      ///< elements per sample

  /// Returns the number of workspace elements per sample.
  [[nodiscard]] virtual std::size_t workspace_size() const { return 0; }

  /// Returns true if forward works with y == x and backward with dx == dy, and backward does not
  /// read x.
  [[nodiscard]] virtual bool can_work_in_place() const { return false; }
  /// Returns true if backward reads y; the next layer must then not overwrite y.
  [[nodiscard]] virtual bool reads_output() const { return false; }
  [[nodiscard]] virtual bool is_relu() const { return false; }
  /// Returns true if forward supports LayerCall::with_relu. backward does not include the ReLU: its
  /// dy is the gradient of the layer's own output, before the ReLU.
  [[nodiscard]] virtual bool can_fuse_relu() const { return false; }
  /// Returns true if the network may pass a batch through this layer a few samples at a time and
  /// add up the gradients. True only for layers that gain nothing from more samples at once. A
  /// layer of this kind ignores BatchInfo and has no workspace.
  [[nodiscard]] virtual bool can_run_in_parts() const { return false; }

  /// Returns the names and shapes of the parameter tensors, in their order in the layer's part of
  /// the array.
  [[nodiscard]] virtual std::vector<NamedShape> parameters() const { return {}; }

  /// Returns the names and shapes of the arrays that are not trained but computed from the batches.
  /// The network keeps their running means; these are equal on all ranks, are saved in checkpoints,
  /// and are used in evaluation.
  [[nodiscard]] virtual std::vector<NamedShape> running_statistics() const { return {}; }
  /// Fills in the initial values of the running statistics. Host memory.
  virtual void initialise_running_statistics(std::span<T> /*running*/) const {}

  /// Returns true if forward and backward call BatchInfo::sum_over_ranks during training. These
  /// functions then run even on a rank without samples.
  [[nodiscard]] virtual bool communicates() const { return false; }

  /// Fills the parameters with initial values. Host memory. Equal states of `random` give equal
  /// values for float and double, up to rounding.
  virtual void initialise(std::span<T> /*parameters*/, Random& /*random*/) const {}

  /// Computes y = f(x). x: [n x inputs], y: [n x outputs]. n > 0, unless communicates().
  virtual void forward(const LayerCall<T>& call, const T* x, T* y) const = 0;

  /// Computes, from dy = dL/dy and the data of forward, gradients = dL/dparameters (overwritten),
  /// and dx = dL/dx unless dx is nullptr. If n == 0, the gradients are 0: a rank may have no
  /// samples in the last step of an epoch.
  virtual void backward(const LayerCall<T>& call, const T* x, const T* y, const T* dy, T* gradients,
                        T* dx) const = 0;

 protected:
  Layer() = default;
};

template <typename T>
using Layers = std::vector<std::unique_ptr<Layer<T>>>;

/// Scheme for initial weights, which are drawn uniformly; biases are 0.
/// - kHe, if a ReLU follows: variance 2 / fan-in (He et al. 2015, eq. 10).
/// - kGlorot: variance 2 / (fan-in + fan-out) (Glorot & Bengio 2010, eq. 16).
enum class Initialisation { kHe, kGlorot };

/// Draws the first weight_count elements of `parameters` by the scheme, and fills the rest with
/// zeros. Host memory.
template <typename T>
void draw_weights(std::span<T> parameters, std::size_t weight_count, std::size_t fan_in,
                  std::size_t fan_out, Initialisation scheme, Random& random);

/// Makes a layer y = x W + b. W: [inputs x outputs], b: [outputs].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_dense(std::size_t inputs, std::size_t outputs,
                                                   Initialisation initialisation);

/// Makes a convolution (LayerKernels::convolve). weight: [size x size x input channels x output
/// channels], or depthwise [size x size x channels]; bias: [output channels], if has_bias.
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_conv2d(const Window& window,
                                                    Initialisation initialisation,
                                                    bool has_bias = true);

/// Makes a layer y = max(x, 0). x, y: [n x width].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_relu(std::size_t width);
/// Makes a layer y = tanh(x). x, y: [n x width].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_tanh(std::size_t width);
/// Makes a layer y = 1 / (1 + exp(-x)). x, y: [n x width].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_sigmoid(std::size_t width);
/// Makes a layer y = x / (1 + exp(-x)) (LayerKernels::silu). x, y: [n x width].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_silu(std::size_t width);

/// Makes a squeeze-and-excitation layer (Hu, Shen & Sun 2018, with silu as in EfficientNet) for
/// images of `pixels` x `channels`: y = x f, with one factor f in (0, 1) per sample and channel,
/// f = logistic(silu(m W1 + b1) W2 + b2), where m holds the mean of each channel of x.
/// W1 ("squeeze.weight"): [channels x squeezed_channels], b1 ("squeeze.bias"): [squeezed_channels],
/// W2 ("expand.weight"): [squeezed_channels x channels], b2 ("expand.bias"): [channels].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_squeeze_excite(std::size_t pixels,
                                                            std::size_t channels,
                                                            std::size_t squeezed_channels);

/// Makes a layer y = the maximum of each window (LayerKernels::max_pool).
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_max_pool(const Window& window);
/// Makes a layer y = the mean of each window (LayerKernels::average_pool).
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_average_pool(const Window& window);
/// Makes a layer y = the mean of each channel over the whole image: [n x channels].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_global_average_pool(const ImageShape& image);

/// Makes a dropout layer. During training each element becomes 0 with probability `rate`, else
/// x / (1 - rate) (Srivastava et al. 2014, in its inverted form); in evaluation y = x. The choice
/// of elements depends only on seed, step, sample and `index`, not on the world size. `index` is
/// the number of the dropout layer, so that two dropout layers differ. 0 <= rate < 1.
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_dropout(std::size_t width, double rate,
                                                     std::uint64_t index);

/// Makes a batch normalisation layer (Ioffe & Szegedy 2015, Algorithm 1) for `pixels` x `channels`
/// elements per sample: y = gamma (x - mean) / sqrt(variance + 1e-5) + beta, per channel. During
/// training, mean and variance are those of this rank's batch or, if synchronised, of all ranks'
/// samples. In evaluation the running values are used. Each step of training keeps 0.9 of the
/// running values and adds 0.1 of the batch's mean and unbiased variance, like PyTorch. gamma
/// ("weight"), beta ("bias"): [channels].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_batchnorm(std::size_t pixels, std::size_t channels,
                                                       bool is_synchronised);

/// Makes a residual block y = s(x) + f(x), where f are the inner layers (He et al. 2016) and s
/// those of the shortcut; without a shortcut s(x) = x. f and s take `inputs` elements per sample,
/// and return `outputs` elements.
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_residual(std::size_t inputs, std::size_t outputs,
                                                      Layers<T> inner, Layers<T> shortcut);

}  // namespace dlrun::trainer
