#pragma once
// The learning rate over a run. Time is counted in epochs, so that a schedule does not depend on
// batch and world size.

#include <vector>

namespace dlrun::trainer {

/// The growth of the learning rate with the number of ranks, and thus with the global batch.
enum class LrScaling {
  kNone,
  kLinear,  ///< times rank_count (Goyal et al. 2017, section 2.1)
  kSqrt,    ///< times sqrt(rank_count) (Krizhevsky 2014, section 5)
};

/// The decay of the learning rate after the warmup. t runs from 0 at the end of the warmup to 1 at
/// the end of the run.
enum class LrDecay {
  kConstant,
  kLinear,      ///< to 0 at the end of the run
  kCosine,      ///< half a cosine to 0 at the end (Loshchilov & Hutter 2017, without restarts)
  kStep,        ///< times step_factor at each of step_epochs (Goyal et al. 2017, section 5.1)
  kPolynomial,  ///< times (1 - t)^power, to 0 at the end (You et al. 2017, section 5)
};

struct Schedule {
  double base_rate = 1e-3;  ///< the learning rate before scaling
  LrScaling scaling = LrScaling::kNone;
  LrDecay decay = LrDecay::kConstant;
  /// Length of the warmup in epochs. During the warmup the rate grows linearly from base_rate to
  /// the scaled rate (Goyal et al. 2017, section 2.2); without scaling, from 0 to base_rate.
  double warmup_epochs = 0;
  double epochs = 1;  ///< epochs that every rank runs; > 0
  int rank_count = 1;
  std::vector<double> step_epochs;  ///< epochs at which kStep reduces the rate, ascending
  double step_factor = 0.1;         ///< for kStep
  double power = 2;                 ///< for kPolynomial
};

/// Returns the learning rate after `epochs_done` epochs, 0 <= epochs_done <= epochs.
[[nodiscard]] double learning_rate(const Schedule& schedule, double epochs_done);

}  // namespace dlrun::trainer
