#include "runtime/trainer/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/trainer/optim/formulas.h"
#include "runtime/trainer/optim/lars.h"
#include "runtime/trainer/optim/novograd.h"

namespace dlrun::trainer {
namespace {

/// An optimizer's values for the options that the user has not set.
struct Defaults {
  double momentum = 0;
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 0;
};

struct OptimizerRow {
  std::string_view name;
  Defaults defaults;
  std::unique_ptr<Optimizer<float>> (*make_float)(const OptimizerOptions&);
  std::unique_ptr<Optimizer<double>> (*make_double)(const OptimizerOptions&);
};

/// Makes the row of an update rule: a class template that is constructed from resolved options.
template <template <typename> class Rule>
constexpr OptimizerRow make_row(std::string_view name, const Defaults& defaults) {
  return {name, defaults,
          [](const OptimizerOptions& options) -> std::unique_ptr<Optimizer<float>> {
            return std::make_unique<Rule<float>>(options);
          },
          [](const OptimizerOptions& options) -> std::unique_ptr<Optimizer<double>> {
            return std::make_unique<Rule<double>>(options);
          }};
}

constexpr OptimizerRow kOptimizers[] = {
    make_row<Adam>("adam", {.epsilon = 1e-8}),
    make_row<AdamW>("adamw", {.weight_decay = 0.01, .epsilon = 1e-8}),
    make_row<Sgd>("sgd", {.momentum = 0.9}),
    make_row<Nesterov>("nesterov", {.momentum = 0.9}),
    make_row<Rmsprop>("rmsprop", {.epsilon = 1e-8}),
    make_row<Lars>("lars", {.momentum = 0.9, .weight_decay = 1e-4}),
    make_row<Lamb>("lamb", {.weight_decay = 0.01, .epsilon = 1e-6}),
    make_row<Novograd>("novograd", {.beta1 = 0.95, .beta2 = 0.98, .epsilon = 1e-8}),
    make_row<Lion>("lion", {.beta2 = 0.99}),
};

/// Returns all names with a separator between them.
std::string names(std::string_view separator) {
  std::string all;
  for (const OptimizerRow& row : kOptimizers) {
    if (!all.empty()) all += separator;
    all += row.name;
  }
  return all;
}

Result<const OptimizerRow*> find_row(std::string_view name) {
  for (const OptimizerRow& row : kOptimizers) {
    if (row.name == name) return &row;
  }
  return fail(Errc::kUsage, "--optimizer {}: expected one of {}", name, names(", "));
}

}  // namespace

Result<OptimizerOptions> with_defaults(const OptimizerOptions& options) {
  DLRUN_TRY_ASSIGN(const auto row, find_row(options.name));
  OptimizerOptions resolved = options;
  const Defaults& defaults = row->defaults;
  resolved.momentum = options.momentum.value_or(defaults.momentum);
  resolved.weight_decay = options.weight_decay.value_or(defaults.weight_decay);
  resolved.beta1 = options.beta1.value_or(defaults.beta1);
  resolved.beta2 = options.beta2.value_or(defaults.beta2);
  resolved.epsilon = options.epsilon.value_or(defaults.epsilon);
  return resolved;
}

template <typename T>
Result<std::unique_ptr<Optimizer<T>>> make_optimizer(const OptimizerOptions& options) {
  DLRUN_TRY_ASSIGN(const auto resolved, with_defaults(options));
  const OptimizerRow& row = **find_row(options.name);
  if constexpr (std::is_same_v<T, float>) {
    return row.make_float(resolved);
  } else {
    return row.make_double(resolved);
  }
}
template Result<std::unique_ptr<Optimizer<float>>> make_optimizer(const OptimizerOptions&);
template Result<std::unique_ptr<Optimizer<double>>> make_optimizer(const OptimizerOptions&);

double clipping_scale(double norm, double max_norm) {
  return std::min(1.0, max_norm / (norm + 1e-6));
}

template <typename T>
double clipping_scale(Kernels<T>& kernels, const T* gradients, std::size_t count, double max_norm) {
  const TensorRange all{0, count};
  double sum = 0;
  kernels.sums_of_squares(gradients, std::span(&all, 1), &sum);
  return clipping_scale(std::sqrt(sum), max_norm);
}
template double clipping_scale(Kernels<float>&, const float*, std::size_t, double);
template double clipping_scale(Kernels<double>&, const double*, std::size_t, double);

std::string_view optimizer_names() {
  static const std::string kNames = names("|");
  return kNames;
}

}  // namespace dlrun::trainer
