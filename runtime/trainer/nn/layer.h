#pragma once
// A layer: a function of its input and its parameters, and the derivative of that function.
//
// A layer owns no memory. The network gives it its view of the flat parameter and gradient arrays,
// the arrays of its input and output, and a workspace that stays as it was between forward and
// backward of one batch.

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

/// One parameter tensor as checkpoints name it: "weight" [784, 512].
struct ParameterShape {
  std::string name;
  std::vector<std::size_t> shape;

  [[nodiscard]] std::size_t count() const {
    std::size_t product = 1;
    for (const std::size_t size : shape) product *= size;
    return product;
  }
};

/// What a layer may want to know about the batch.
struct BatchInfo {
  bool is_training = false;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< the optimizer's, from 0
  std::span<const std::uint32_t>
      samples{};                   ///< which samples of the data set; empty where nobody asks
  std::size_t global_samples = 0;  ///< of all ranks and micro-batches of the step; 0: these are all
  const SumOverRanks* sum_over_ranks = nullptr;  ///< nullptr: this rank is alone
};

/// What every call gets. n: samples of this rank's batch.
template <typename T>
struct LayerCall {
  Kernels<T>& kernels;
  const T* parameters = nullptr;
  T* workspace = nullptr;  ///< [n x Layer::workspace()]
  std::size_t n = 0;
  const BatchInfo& batch;
  const T* running =
      nullptr;  ///< its statistics of the batches so far, in the order of Layer::statistics()
  T* observed =
      nullptr;  ///< in training, where its share of this step's statistics is added; may be nullptr
  bool with_relu =
      false;  ///< forward gives what the ReLU behind it would make of y; see Layer::takes_relu()
};

template <typename T>
class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  [[nodiscard]] virtual std::string description() const = 0;  ///< "dense 512"
  [[nodiscard]] virtual std::size_t outputs() const = 0;      ///< elements a sample

  /// Elements of workspace a sample.
  [[nodiscard]] virtual std::size_t workspace() const { return 0; }

  /// forward works with y == x and backward with dx == dy, and backward does not read x.
  [[nodiscard]] virtual bool is_in_place() const { return false; }
  /// backward reads y: the next layer must not overwrite it.
  [[nodiscard]] virtual bool reads_output() const { return false; }
  [[nodiscard]] virtual bool is_relu() const { return false; }
  /// forward obeys LayerCall::with_relu; backward gets dL/dy of before the ReLU, as ever.
  [[nodiscard]] virtual bool takes_relu() const { return false; }
  /// Forward and backward of a batch are those of its parts one after another, the parts' gradients
  /// added up, and nothing is gained by a larger part. Neither looks at the BatchInfo or has a
  /// workspace.
  [[nodiscard]] virtual bool goes_in_parts() const { return false; }

  /// Its parameters in the order of its view.
  [[nodiscard]] virtual std::vector<ParameterShape> parameters() const { return {}; }

  /// Arrays that are not trained but follow the batches: the network keeps their running means,
  /// which are the same on all ranks and a part of checkpoints. Their own values are those of
  /// evaluation.
  [[nodiscard]] virtual std::vector<ParameterShape> statistics() const { return {}; }
  /// Their values before the first batch, in host memory.
  virtual void initialise_statistics(std::span<T> /*running*/) const {}

  /// In training its forward and backward call BatchInfo::sum_over_ranks, on a rank without
  /// samples, too.
  [[nodiscard]] virtual bool joins_ranks() const { return false; }

  /// Fills host memory with first values. The same stream gives the same values for float and
  /// double, up to rounding.
  virtual void initialise(std::span<T> /*parameters*/, Random& /*random*/) const {}

  /// y = f(x). x: [n x inputs], y: [n x outputs]. n > 0, unless it joins_ranks().
  virtual void forward(const LayerCall<T>& call, const T* x, T* y) const = 0;

  /// gradients = dL/dparameters (overwritten), and dx = dL/dx unless it is nullptr, from dy = dL/dy
  /// and what forward saw. n == 0 gives zero gradients: a rank may have no sample in an epoch's
  /// last step.
  virtual void backward(const LayerCall<T>& call, const T* x, const T* y, const T* dy, T* gradients,
                        T* dx) const = 0;

 protected:
  Layer() = default;
};

template <typename T>
using Layers = std::vector<std::unique_ptr<Layer<T>>>;

/// Weights are drawn uniformly with variance 2 / fan-in where a ReLU follows (He et al. 2015, eq.
/// 10), else 2 / (fan-in + fan-out) (Glorot & Bengio 2010, eq. 16); biases are 0.
enum class Initialisation { kHe, kGlorot };

/// Fills weights as scheme says, then the rest with zeros. Host memory.
template <typename T>
void draw_weights(std::span<T> parameters, std::size_t weights, std::size_t fan_in,
                  std::size_t fan_out, Initialisation scheme, Random& random);

/// y = x W + b. W: [inputs x outputs], b: [outputs].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_dense(std::size_t inputs, std::size_t outputs,
                                                   Initialisation initialisation);

/// LayerKernels::convolve. weight: [size x size x channels in x channels out], bias: [channels
/// out].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_conv2d(const Window& window,
                                                    Initialisation initialisation);

/// y = max(x, 0), tanh(x), 1 / (1 + exp(-x)).
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_relu(std::size_t width);
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_tanh(std::size_t width);
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_sigmoid(std::size_t width);

template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_max_pool(const Window& window);
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_average_pool(const Window& window);

/// In training each element is 0 with probability `rate`, else x / (1 - rate) (Srivastava et al.
/// 2014, in its inverted form); otherwise y = x. Which elements: a function of seed, step, sample
/// and index alone, the same for any world size. index: the layer's, so that two of them differ. 0
/// <= rate < 1.
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_dropout(std::size_t width, double rate,
                                                     std::uint64_t index);

/// Batch normalisation (Ioffe & Szegedy 2015, Algorithm 1) of `places` x `channels` elements a
/// sample, channel by channel: y = gamma (x - mean) / sqrt(variance + 1e-5) + beta. Mean and
/// variance are the batch's in training, this rank's or, synchronised, those of all ranks' samples
/// together; in evaluation the running ones, of which each step keeps 0.9 (of the variance, the
/// unbiased estimate goes in), as PyTorch has it. gamma, beta: [channels].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_batchnorm(std::size_t places, std::size_t channels,
                                                       bool is_synchronised);

/// y = s(x) + f(x), f the inner layers (He et al. 2016), s those of the shortcut; without any, s(x)
/// = x. Both end with `outputs` elements a sample, and begin with `inputs`.
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_residual(std::size_t inputs, std::size_t outputs,
                                                      Layers<T> inner, Layers<T> shortcut);

}  // namespace dlrun::trainer
