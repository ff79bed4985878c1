#include "runtime/trainer/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dlrun::trainer {

double learning_rate(const Schedule& schedule, double done) {
  const double factor = schedule.scaling == LrScaling::kLinear ? schedule.size
                        : schedule.scaling == LrScaling::kSqrt ? std::sqrt(schedule.size)
                                                               : 1;
  const double peak = schedule.base * factor;
  if (done < schedule.warmup_epochs) {
    const double first = schedule.scaling == LrScaling::kNone ? 0 : schedule.base;
    return first + (peak - first) * done / schedule.warmup_epochs;
  }
  const double span = std::max(schedule.epochs - schedule.warmup_epochs, 1e-9);
  const double at = std::clamp((done - schedule.warmup_epochs) / span, 0.0, 1.0);
  switch (schedule.decay) {
    case LrDecay::kConstant:
      return peak;
    case LrDecay::kLinear:
      return peak * (1 - at);
    case LrDecay::kCosine:
      return peak * (1 + std::cos(std::numbers::pi * at)) / 2;
    case LrDecay::kStep: {
      const auto reductions = std::upper_bound(schedule.steps.begin(), schedule.steps.end(), done) -
                              schedule.steps.begin();
      return peak * std::pow(schedule.step_factor, static_cast<double>(reductions));
    }
    case LrDecay::kPolynomial:
      return peak * std::pow(1 - at, schedule.power);
  }
  return peak;
}

}  // namespace dlrun::trainer
