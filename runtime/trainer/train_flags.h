#pragma once
// The flags of TrainOptions.

#include <vector>

#include "runtime/trainer/flags.h"
#include "runtime/trainer/loop/trainer.h"

namespace dlrun::trainer {

/// Limits of numbers of samples and of epochs.
constexpr std::int64_t kMostSamples = 0xffff'ffff;
constexpr std::int64_t kMostEpochs = 1'000'000;

/// Returns the table of the flags that set TrainOptions. The trainer compares the values of all
/// flags among the ranks, except flags with `is_own`.
[[nodiscard]] const std::vector<Flag<TrainOptions>>& train_flags();

}  // namespace dlrun::trainer
