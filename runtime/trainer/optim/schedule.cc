#include "runtime/trainer/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dlrun::trainer {

double learning_rate(const Schedule& schedule, double epochs_done) {
  const double factor = schedule.scaling == LrScaling::kLinear ? schedule.rank_count
                        : schedule.scaling == LrScaling::kSqrt ? std::sqrt(schedule.rank_count)
                                                               : 1;
  const double peak = schedule.base_rate * factor;
  if (epochs_done < schedule.warmup_epochs) {
    const double start_rate = schedule.scaling == LrScaling::kNone ? 0 : schedule.base_rate;
    return start_rate + (peak - start_rate) * epochs_done / schedule.warmup_epochs;
  }
  const double span = std::max(schedule.epochs - schedule.warmup_epochs, 1e-9);
  const double t = std::clamp((epochs_done - schedule.warmup_epochs) / span, 0.0, 1.0);
  switch (schedule.decay) {
    case LrDecay::kConstant:
      return peak;
    case LrDecay::kLinear:
      return peak * (1 - t);
    case LrDecay::kCosine:
      return peak * (1 + std::cos(std::numbers::pi * t)) / 2;
    case LrDecay::kStep: {
      const auto reductions =
          std::upper_bound(schedule.step_epochs.begin(), schedule.step_epochs.end(), epochs_done) -
          schedule.step_epochs.begin();
      return peak * std::pow(schedule.step_factor, static_cast<double>(reductions));
    }
    case LrDecay::kPolynomial:
      return peak * std::pow(1 - t, schedule.power);
  }
  return peak;
}

}  // namespace dlrun::trainer
