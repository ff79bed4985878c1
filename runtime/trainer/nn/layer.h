#pragma once
// A layer: a function of its input and its parameters, and the derivative of that function.
//
// A layer owns no memory. The network gives it its view of the flat parameter and gradient arrays, the arrays of its
// input and output, and a workspace that stays as it was between forward and backward of one batch.

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
  std::uint64_t step = 0;                  ///< the optimizer's, from 0
  std::span<const std::uint32_t> samples;  ///< which samples of the data set; empty where nobody asks
};

/// What every call gets. n: samples of this rank's batch.
template <typename T>
struct LayerCall {
  Kernels<T>& kernels;
  const T* parameters = nullptr;
  T* workspace = nullptr;  ///< [n x Layer::workspace()]
  std::size_t n = 0;
  const BatchInfo& batch;
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
  /// Needs Kernels::layers(), which not every device has.
  [[nodiscard]] virtual bool needs_layer_kernels() const { return true; }

  /// Its parameters in the order of its view.
  [[nodiscard]] virtual std::vector<ParameterShape> parameters() const { return {}; }

  /// Fills host memory with first values. The same stream gives the same values for float and double, up to rounding.
  virtual void initialise(std::span<T> /*parameters*/, Random& /*random*/) const {}

  /// y = f(x). x: [n x inputs], y: [n x outputs]. n > 0.
  virtual void forward(const LayerCall<T>& call, const T* x, T* y) const = 0;

  /// gradients = dL/dparameters (overwritten), and dx = dL/dx unless it is nullptr, from dy = dL/dy and what forward
  /// saw. n == 0 gives zero gradients: a rank may have no sample in an epoch's last step.
  virtual void backward(const LayerCall<T>& call, const T* x, const T* y, const T* dy, T* gradients, T* dx) const = 0;

 protected:
  Layer() = default;
};

template <typename T>
using Layers = std::vector<std::unique_ptr<Layer<T>>>;

/// Weights are drawn uniformly with variance 2 / fan-in where a ReLU follows (He et al. 2015, eq. 10), else
/// 2 / (fan-in + fan-out) (Glorot & Bengio 2010, eq. 16); biases are 0.
enum class Initialisation { kHe, kGlorot };

/// Fills weights as scheme says, then the rest with zeros. Host memory.
template <typename T>
void draw_weights(std::span<T> parameters, std::size_t weights, std::size_t fan_in, std::size_t fan_out,
                  Initialisation scheme, Random& random);

/// y = x W + b. W: [inputs x outputs], b: [outputs].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_dense(std::size_t inputs, std::size_t outputs,
                                                   Initialisation initialisation);

/// LayerKernels::convolve. weight: [size x size x channels in x channels out], bias: [channels out].
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_conv2d(const Window& window, Initialisation initialisation);

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

/// In training each element is 0 with probability `rate`, else x / (1 - rate) (Srivastava et al. 2014, in its inverted
/// form); otherwise y = x. Which elements: a function of seed, step, sample and index alone, the same for any world
/// size. index: the layer's, so that two of them differ. 0 <= rate < 1.
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_dropout(std::size_t width, double rate, std::uint64_t index);

/// y = x + f(x), f the inner layers (He et al. 2016). The last of them has `width` outputs, as the first has inputs.
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_residual(std::size_t width, Layers<T> inner);

}  // namespace dlrun::trainer
