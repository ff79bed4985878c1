#pragma once
// A layer: a function of its input and its parameters, and the derivative of that function.
//
// A layer owns no memory. The network gives it its view of the flat parameter and gradient arrays, and the arrays of
// its input and output.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/kernels.h"

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

template <typename T>
class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  [[nodiscard]] virtual std::string_view kind() const = 0;
  [[nodiscard]] virtual std::size_t outputs() const = 0;  ///< elements a sample

  /// Its parameters in the order of its view.
  [[nodiscard]] virtual std::vector<ParameterShape> parameters() const { return {}; }

  /// Fills host memory with first values. The same stream gives the same values for float and double, up to rounding.
  virtual void initialise(std::span<T> /*parameters*/, Random& /*random*/) const {}

  /// y = f(x). x: [n x inputs], y: [n x outputs]. n > 0.
  virtual void forward(Kernels<T>& kernels, const T* parameters, const T* x, T* y, std::size_t n) const = 0;

  /// gradients = dL/dparameters (overwritten), and dx = dL/dx unless it is nullptr, from dy = dL/dy and what forward
  /// saw. n == 0 gives zero gradients: a rank may have no sample in an epoch's last step.
  virtual void backward(Kernels<T>& kernels, const T* parameters, const T* x, const T* y, const T* dy, T* gradients,
                        T* dx, std::size_t n) const = 0;

 protected:
  Layer() = default;
};

/// y = x W + b. W: [inputs x outputs], b: [outputs]. W is drawn uniformly with variance 2 / inputs where a ReLU follows
/// (He et al. 2015, eq. 10), else 2 / (inputs + outputs) (Glorot & Bengio 2010, eq. 16); b is 0.
enum class Initialisation { kHe, kGlorot };
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_dense(std::size_t inputs, std::size_t outputs,
                                                   Initialisation initialisation);

/// y = max(x, 0).
template <typename T>
[[nodiscard]] std::unique_ptr<Layer<T>> make_relu(std::size_t width);

}  // namespace dlrun::trainer
