#include "runtime/trainer/optim/optimizer.h"

#include <string>

#include "runtime/trainer/optim/rules.h"

namespace dlrun::trainer {
namespace {

template <typename T>
struct Row {
  std::string_view name;
  std::unique_ptr<Optimizer<T>> (*make)(const OptimizerOptions&);
};

template <typename T>
constexpr Row<T> kOptimizers[] = {
    {"adam", make_adam<T>},
    {"sgd", make_sgd<T>},
};

}  // namespace

template <typename T>
Result<std::unique_ptr<Optimizer<T>>> make_optimizer(const OptimizerOptions& options) {
  std::string names;
  for (const Row<T>& row : kOptimizers<T>) {
    if (row.name == options.name) return row.make(options);
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return fail(Errc::kUsage, "--optimizer {}: expected one of {}", options.name, names);
}
template Result<std::unique_ptr<Optimizer<float>>> make_optimizer(const OptimizerOptions&);
template Result<std::unique_ptr<Optimizer<double>>> make_optimizer(const OptimizerOptions&);

}  // namespace dlrun::trainer
