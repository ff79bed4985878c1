#pragma once
// Optimizers: rules that update the parameters with gradients.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/optim/formula.h"

namespace dlrun::trainer {

/// Options of an optimizer. If an option is not set, with_defaults() sets it to the optimizer's
/// default; --help lists the defaults.
struct OptimizerOptions {
  std::string name = "adam";
  std::optional<double> momentum = {};  ///< for sgd, nesterov, rmsprop, lars
  /// Added to the gradient (L2) for sgd, nesterov, rmsprop, adam and lars, and to the normalised
  /// gradient for novograd; decoupled from the gradient for adamw, lamb and lion.
  std::optional<double> weight_decay = {};
  std::optional<double> beta1 = {};    ///< for adam, adamw, lamb, novograd, lion
  std::optional<double> beta2 = {};    ///< for adam, adamw, lamb, novograd, lion
  std::optional<double> epsilon = {};  ///< for adam, adamw, lamb, novograd, rmsprop
  double alpha = 0.99;                 ///< for rmsprop: factor of the old mean square
  double trust = 0.001;                ///< for lars: trust coefficient (optim/lars.h)

  friend bool operator==(const OptimizerOptions&, const OptimizerOptions&) = default;
};

/// The range of a whole tensor in the flat arrays: elements [begin, begin + count).
struct TensorRange {
  std::size_t begin = 0;
  std::size_t count = 0;
  /// False for a bias or a scale. lars and lamb apply weight decay only to weights, and give each
  /// weight tensor its own rate.
  bool is_weight = true;
};

/// The arrays that a step updates, all on the same device: those of all parameters or of a range of
/// them. Each has `count` elements, except for a state array that has one element per tensor.
template <typename T>
struct Slice {
  T* parameters = nullptr;
  T* gradients = nullptr;      ///< the optimizer may overwrite them
  std::span<T* const> states;  ///< [count] each, or one element per tensor (StateArrayInfo)
  std::size_t count = 0;
  /// The tensors of the slice, in order; for rules that need whole tensors.
  std::span<const TensorRange> tensors;

  /// Returns the arrays for Kernels::update.
  [[nodiscard]] UpdateArrays<T> arrays() const {
    return {parameters, gradients, states.empty() ? nullptr : states[0],
            states.size() < 2 ? nullptr : states[1], count};
  }
  /// Returns the parts of the arrays for one tensor. Each state array must have `count` elements.
  [[nodiscard]] UpdateArrays<T> arrays(const TensorRange& tensor) const {
    return arrays().part(tensor.begin, tensor.count);
  }
};

struct StepInfo {
  double learning_rate = 0;   ///< already scheduled
  std::uint64_t step = 1;     ///< counts from 1
  double gradient_scale = 1;  ///< factor for the gradients, for clipping
};

/// Describes an array of an optimizer's state.
struct StateArrayInfo {
  std::string_view name;
  /// False: the array has the layout of the parameters. True: the array has one element per tensor.
  /// Only rules that need whole tensors may have such an array.
  bool is_per_tensor = false;
};

/// An update rule. Its state is stored in arrays. The caller owns these arrays, saves them in
/// checkpoints, and passes them in the order of states().
template <typename T>
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Returns descriptions of the state arrays. The arrays are zero before the first step.
  [[nodiscard]] virtual std::span<const StateArrayInfo> states() const = 0;

  /// Returns true if a step depends on a whole tensor and not only on single elements. A slice must
  /// then contain whole tensors only.
  [[nodiscard]] virtual bool needs_whole_tensors() const { return false; }

  /// Does one step in place. Does nothing for an empty slice. Kernels::synchronise() returns errors
  /// of the device.
  virtual void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const = 0;

 protected:
  Optimizer() = default;
};

/// Returns the options with all defaults of the named optimizer filled in. Fails with kUsage and
/// lists the names if there is no such optimizer.
[[nodiscard]] Result<OptimizerOptions> with_defaults(const OptimizerOptions& options);

/// Creates the optimizer called options.name. Fails as with_defaults() does.
template <typename T>
[[nodiscard]] Result<std::unique_ptr<Optimizer<T>>> make_optimizer(const OptimizerOptions& options);

/// Returns the factor that limits the gradients' global norm to `max_norm` (Pascanu et al.
/// 2013, Algorithm 1): min(1, max_norm / (norm + 1e-6)), like PyTorch. gradients: [count] on
/// the device of `kernels`. max_norm > 0.
template <typename T>
[[nodiscard]] double clipping_scale(Kernels<T>& kernels, const T* gradients, std::size_t count,
                                    double max_norm);
/// Returns the same factor for a norm that the caller has computed.
[[nodiscard]] double clipping_scale(double norm, double max_norm);

/// Returns "adam|adamw|...", for --help.
[[nodiscard]] std::string_view optimizer_names();

}  // namespace dlrun::trainer
