#pragma once
// The update rules, one file each; optimizer.cc has their table. options: every default is filled
// in.

#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {

template <typename T>
[[nodiscard]] std::unique_ptr<Optimizer<T>> make_adam(const OptimizerOptions& options);
template <typename T>
[[nodiscard]] std::unique_ptr<Optimizer<T>> make_adamw(const OptimizerOptions& options);
template <typename T>
[[nodiscard]] std::unique_ptr<Optimizer<T>> make_sgd(const OptimizerOptions& options);
template <typename T>
[[nodiscard]] std::unique_ptr<Optimizer<T>> make_nesterov(const OptimizerOptions& options);
template <typename T>
[[nodiscard]] std::unique_ptr<Optimizer<T>> make_rmsprop(const OptimizerOptions& options);
template <typename T>
[[nodiscard]] std::unique_ptr<Optimizer<T>> make_lars(const OptimizerOptions& options);
template <typename T>
[[nodiscard]] std::unique_ptr<Optimizer<T>> make_lamb(const OptimizerOptions& options);

}  // namespace dlrun::trainer
