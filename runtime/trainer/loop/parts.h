#pragma once
// The members of a Trainer. Used only inside loop/.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/trainer/checkpoint/checkpoint.h"
#include "runtime/trainer/loop/trace.h"
#include "runtime/trainer/loop/trainer.h"
#include "runtime/trainer/nn/network.h"
#include "runtime/trainer/parallel/local_steps.h"
#include "runtime/trainer/parallel/sharded_step.h"
#include "runtime/trainer/parallel/shared_arrays.h"

namespace dlrun::trainer {

using Clock = std::chrono::steady_clock;

/// Indices of the extra numbers ("words") behind the gradients. The words are summed over all ranks
/// together with the gradients, so that ranks share them without an extra collective.
enum Word : std::size_t { kLossSum, kCorrect, kSaveRequests, kWords };

/// Returns the largest number of samples that pass through the network together.
[[nodiscard]] inline std::size_t at_once(const TrainOptions& options) {
  return options.micro_batch == 0 ? options.batch : std::min(options.micro_batch, options.batch);
}

/// Sums over the samples of all ranks.
struct Trainer::Totals {
  double loss = 0;
  double correct = 0;
  double samples = 0;

  [[nodiscard]] double mean_loss() const { return samples > 0 ? loss / samples : 0; }
  [[nodiscard]] double accuracy() const { return samples > 0 ? correct / samples : 0; }
};

struct Trainer::Parts {
  Parts(const TrainOptions& options, const Split& data, const Session& session,
        Layers<float> layers, std::unique_ptr<Optimizer<float>> rule,
        const std::vector<std::size_t>& rank_samples);

  std::size_t most;  // maximum number of samples in one forward pass
  SharedArrays shared;
  Network<float> network;
  std::unique_ptr<Optimizer<float>> optimizer;
  std::unique_ptr<ShardedStep> sharded;  // nullptr: this rank keeps the whole optimizer state
  std::unique_ptr<LocalSteps> local;     // nullptr: every step is common to all ranks
  std::vector<Array<float>> states;      // of the optimizer: [parameters] each, or this rank's part
  std::vector<float*> state_pointers;
  std::vector<TensorPart> parts;  // the tensors of the flat arrays
  Sampler sampler;
  GradientReducer reducer;
  DeviceData train;
  DeviceData test;
  Array<std::uint8_t> labels;  // labels of the batch
  Array<float> totals;         // loss and right answers of an evaluation
  Array<float> own_loss;       // loss of this rank's samples in the current step
  Array<float> accumulated;    // gradients of earlier micro-batches; zero between steps
  CheckpointFolder checkpoints;
  std::unique_ptr<Trace> trace;  // nullptr: no trace was requested
  bool is_recorded = false;      // steps run as CUDA graphs: Kernels::begin_step
  Clock::duration waited{};      // time the current step has waited for other ranks
  Result<> summed;               // first failure of sum_over_ranks
  SumOverRanks sum_over_ranks;   // for layers that join ranks
  Schedule schedule;
  Position position;
  bool is_save_due = false;      // save at the end of this step or epoch
  Totals epoch;                  // training samples of the current epoch
  Clock::duration epoch_time{};  // time spent in its steps
  double trained_seconds = 0;
  double trained_samples = 0;
  Totals last_test;
};

}  // namespace dlrun::trainer
