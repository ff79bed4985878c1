#include "runtime/trainer/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/trainer/optim/rules.h"

namespace dlrun::trainer {
namespace {

/// An update rule with its defaults.
struct Row {
  std::string_view name;
  std::unique_ptr<Optimizer<float>> (*make)(const OptimizerOptions&);
  std::unique_ptr<Optimizer<double>> (*make_double)(const OptimizerOptions&);
  double momentum = 0;
  double weight_decay = 0;
  double epsilon = 0;
};

constexpr Row kOptimizers[] = {
    {.name = "adam", .make = make_adam<float>, .make_double = make_adam<double>, .epsilon = 1e-8},
    {.name = "adamw",
     .make = make_adamw<float>,
     .make_double = make_adamw<double>,
     .weight_decay = 0.01,
     .epsilon = 1e-8},
    {.name = "sgd", .make = make_sgd<float>, .make_double = make_sgd<double>, .momentum = 0.9},
    {.name = "nesterov",
     .make = make_nesterov<float>,
     .make_double = make_nesterov<double>,
     .momentum = 0.9},
    {.name = "rmsprop",
     .make = make_rmsprop<float>,
     .make_double = make_rmsprop<double>,
     .epsilon = 1e-8},
    {.name = "lars",
     .make = make_lars<float>,
     .make_double = make_lars<double>,
     .momentum = 0.9,
     .weight_decay = 1e-4},
    {.name = "lamb",
     .make = make_lamb<float>,
     .make_double = make_lamb<double>,
     .weight_decay = 0.01,
     .epsilon = 1e-6},
};

Result<const Row*> find(std::string_view name) {
  std::string names;
  for (const Row& row : kOptimizers) {
    if (row.name == name) return &row;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return fail(Errc::kUsage, "--optimizer {}: expected one of {}", name, names);
}

}  // namespace

Result<OptimizerOptions> resolve(const OptimizerOptions& options) {
  const auto row = find(options.name);
  if (!row) return tl::unexpected(row.error());
  OptimizerOptions resolved = options;
  resolved.momentum = options.momentum.value_or((*row)->momentum);
  resolved.weight_decay = options.weight_decay.value_or((*row)->weight_decay);
  resolved.epsilon = options.epsilon.value_or((*row)->epsilon);
  return resolved;
}

template <typename T>
Result<std::unique_ptr<Optimizer<T>>> make_optimizer(const OptimizerOptions& options) {
  const auto resolved = resolve(options);
  if (!resolved) return tl::unexpected(resolved.error());
  const Row& row = **find(options.name);
  if constexpr (std::is_same_v<T, float>) {
    return row.make(*resolved);
  } else {
    return row.make_double(*resolved);
  }
}
template Result<std::unique_ptr<Optimizer<float>>> make_optimizer(const OptimizerOptions&);
template Result<std::unique_ptr<Optimizer<double>>> make_optimizer(const OptimizerOptions&);

double clipping_scale(double norm, double most) {
  return std::min(1.0, most / (norm + 1e-6));
}

template <typename T>
double clipping_scale(Kernels<T>& kernels, const T* gradients, std::size_t count, double most) {
  const TensorPart all{0, count};
  double sum = 0;
  kernels.sums_of_squares(gradients, std::span(&all, 1), &sum);
  return clipping_scale(std::sqrt(sum), most);
}
template double clipping_scale(Kernels<float>&, const float*, std::size_t, double);
template double clipping_scale(Kernels<double>&, const double*, std::size_t, double);

std::string_view optimizer_names() {
  return "adam|adamw|sgd|nesterov|rmsprop|lars|lamb";
}

}  // namespace dlrun::trainer
