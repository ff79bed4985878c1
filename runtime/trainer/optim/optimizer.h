#pragma once
// How a gradient changes the parameters.

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

namespace dlrun::trainer {

/// What is not given is the optimizer's own default; see --help and resolve().
struct OptimizerOptions {
  std::string name = "adam";
  std::optional<double> momentum = {};  ///< of sgd, nesterov, rmsprop and lars
  std::optional<double> weight_decay =
      {};              ///< L2 of sgd, nesterov, rmsprop, adam and lars; decoupled of adamw and lamb
  double beta1 = 0.9;  ///< of adam, adamw and lamb, as the next
  double beta2 = 0.999;
  std::optional<double> epsilon = {};  ///< of adam, adamw, lamb and rmsprop
  double alpha = 0.99;                 ///< of rmsprop
  double trust = 0.001;                ///< of lars

  friend bool operator==(const OptimizerOptions&, const OptimizerOptions&) = default;
};

/// A tensor in the flat arrays, elements [begin, begin + count).
struct TensorPart {
  std::size_t begin = 0;
  std::size_t count = 0;
  /// A weight, not a bias or a scale: lars and lamb give it a rate of its own and decay it.
  bool is_weight = true;
};

/// What one step works on. All arrays are [count] on the same device.
template <typename T>
struct Slice {
  T* parameters = nullptr;
  T* gradients = nullptr;  ///< of no use afterwards: a rule may work in their place
  std::span<T* const> states;
  std::size_t count = 0;
  std::span<const TensorPart>
      tensors;  ///< that make up the slice, in order; for rules that need whole ones
};

struct StepInfo {
  double learning_rate = 0;   ///< already scheduled
  std::uint64_t step = 1;     ///< counts from 1
  double gradient_scale = 1;  ///< gradients count this many times, for clipping
};

/// An update rule. What it remembers lies in arrays of the parameters' layout that the caller owns,
/// keeps in checkpoints and gives back in the same order.
template <typename T>
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// The names of its arrays, zero before the first step.
  [[nodiscard]] virtual std::span<const std::string_view> states() const = 0;

  /// Whether a step depends on more of a tensor than each element: a slice then holds whole
  /// tensors.
  [[nodiscard]] virtual bool needs_whole_tensors() const { return false; }

  /// One step, in place. An empty slice does nothing. Nothing fails but the device (kernels.h).
  virtual void step(Kernels<T>& kernels, const Slice<T>& slice, const StepInfo& info) const = 0;

 protected:
  Optimizer() = default;
};

/// options with every default of the named optimizer filled in.
/// Fails with kUsage, listing the names, when there is none of that name.
[[nodiscard]] Result<OptimizerOptions> resolve(const OptimizerOptions& options);

/// The optimizer that options.name names. Fails as resolve() does.
template <typename T>
[[nodiscard]] Result<std::unique_ptr<Optimizer<T>>> make_optimizer(const OptimizerOptions& options);

/// By what gradients are multiplied so that their global norm is at most `most` (Pascanu et al.
/// 2013, Algorithm 1): min(1, most / (norm + 1e-6)), as PyTorch has it. gradients: [count] on
/// kernels' device. most > 0.
template <typename T>
[[nodiscard]] double clipping_scale(Kernels<T>& kernels, const T* gradients, std::size_t count,
                                    double most);
[[nodiscard]] double clipping_scale(double norm, double most);

/// "adam|adamw|...", for --help.
[[nodiscard]] std::string_view optimizer_names();

}  // namespace dlrun::trainer
