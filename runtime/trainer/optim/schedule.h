#pragma once
// The learning rate over a run. Time is counted in epochs, so that it does not depend on batch or world size.

#include <optional>
#include <string_view>

namespace dlrun::trainer {

/// How the learning rate grows with the number of ranks, and so with the global batch.
enum class LrScaling {
  kNone,
  kLinear,  ///< times size (Goyal et al. 2017, section 2.1)
  kSqrt,    ///< times sqrt(size) (Krizhevsky 2014, section 5)
};

enum class LrDecay {
  kConstant,
  kLinear,  ///< to 0 at the last step
  kCosine,  ///< half a cosine to 0 at the last step (Loshchilov & Hutter 2017, without restarts)
};

struct Schedule {
  double base = 1e-3;  ///< the learning rate of one rank
  LrScaling scaling = LrScaling::kNone;
  LrDecay decay = LrDecay::kConstant;
  double warmup_epochs = 0;  ///< linear from base to the scaled rate (Goyal et al. 2017, section 2.2)
  double epochs = 1;         ///< that every rank runs; > 0
  int size = 1;              ///< ranks
};

/// The learning rate `done` epochs into the run, 0 <= done < epochs.
[[nodiscard]] double learning_rate(const Schedule& schedule, double done);

[[nodiscard]] std::optional<LrScaling> parse_lr_scaling(std::string_view name);
[[nodiscard]] std::optional<LrDecay> parse_lr_decay(std::string_view name);

}  // namespace dlrun::trainer
