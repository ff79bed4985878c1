#pragma once
// Creates the update rules. Each has its own file; optimizer.cc lists them. All defaults in the
// options must be filled in.

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
