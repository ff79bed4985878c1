#pragma once
// How a gradient changes the parameters.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

struct OptimizerOptions {
  std::string name = "adam";
  double momentum = 0.9;  ///< of sgd
  double weight_decay = 0;
  double beta1 = 0.9;  ///< of adam, as its next two
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// An update rule. What it remembers lies in arrays of the parameters' layout that the caller owns, keeps in
/// checkpoints and gives back in the same order.
template <typename T>
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// The names of its arrays, zero before the first step.
  [[nodiscard]] virtual std::span<const std::string_view> states() const = 0;

  /// One step over count elements, in place. parameters, gradients, each of states: [count] on kernels' device.
  /// learning_rate: already scheduled. step counts from 1. count == 0 does nothing.
  virtual void step(Kernels<T>& kernels, T* parameters, const T* gradients, std::span<T* const> states,
                    std::size_t count, double learning_rate, std::uint64_t step) const = 0;

 protected:
  Optimizer() = default;
};

/// The optimizer that options.name names. Fails with kUsage, listing the names, when there is none.
template <typename T>
[[nodiscard]] Result<std::unique_ptr<Optimizer<T>>> make_optimizer(const OptimizerOptions& options);

}  // namespace dlrun::trainer
