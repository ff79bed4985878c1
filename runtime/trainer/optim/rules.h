#pragma once
// The update rules, one file each; optimizer.cc has their table.

#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {

template <typename T>
[[nodiscard]] std::unique_ptr<Optimizer<T>> make_adam(const OptimizerOptions& options);
template <typename T>
[[nodiscard]] std::unique_ptr<Optimizer<T>> make_sgd(const OptimizerOptions& options);

}  // namespace dlrun::trainer
