#pragma once
// The flags of TrainOptions.

#include <vector>

#include "runtime/trainer/flags.h"
#include "runtime/trainer/loop/trainer.h"

namespace dlrun::trainer {

/// Largest numbers of samples and of epochs that flags accept. A sample's index has 32 bits.
constexpr std::int64_t kMostSamples = 0xffff'ffff;
constexpr std::int64_t kMostEpochs = 1'000'000;

/// Returns the table of the flags that set TrainOptions. The trainer checks that the values of all
/// flags are equal on all ranks, except those of flags with Flag::may_differ.
[[nodiscard]] const std::vector<Flag<TrainOptions>>& train_flags();

}  // namespace dlrun::trainer
