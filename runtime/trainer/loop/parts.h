#pragma once
// What a Trainer is made of; of loop/ alone.

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

/// Words that travel behind the gradients in their first bucket, so that what all ranks must know
/// about a step costs no collective of its own.
enum Word : std::size_t { kLossSum, kCorrect, kSaveRequests, kWords };

/// Samples that go through the network together.
[[nodiscard]] inline std::size_t at_once(const TrainOptions& options) {
  return options.micro_batch == 0 ? options.batch : std::min(options.micro_batch, options.batch);
}

/// Sums over samples of all ranks.
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

  std::size_t most;  // samples that the network has room for
  SharedArrays shared;
  Network<float> network;
  std::unique_ptr<Optimizer<float>> optimizer;
  std::unique_ptr<ShardedStep> sharded;  // nullptr: this rank keeps all of the states
  std::unique_ptr<LocalSteps> local;     // nullptr: all steps are common ones
  std::vector<Array<float>>
      states;  // the optimizer's, each in the layout of the parameters, or this rank's part
  std::vector<float*> state_pointers;
  std::vector<TensorPart> parts;  // the tensors of the flat arrays
  Sampler sampler;
  GradientReducer reducer;
  DeviceData train;
  DeviceData test;
  Array<std::uint8_t> labels;  // of the batch
  Array<float> totals;         // of an evaluation
  Array<float> own_loss;       // of this rank's samples alone, in the step under way
  Array<float> accumulated;    // gradients of the micro-batches before; zero between steps
  CheckpointFolder checkpoints;
  std::unique_ptr<Trace> trace;  // nullptr: none is asked for
  bool is_recorded = false;      // steps go to the GPU as one: Kernels::begin_step
  Clock::duration waited{};      // for other ranks, in the step under way
  Result<> summed;               // the first failure of the next
  SumOverRanks sum_over_ranks;   // for layers
  Schedule schedule;
  Position position;
  bool is_save_due = false;      // at the end of the step or epoch
  Totals epoch;                  // training samples of the epoch under way
  Clock::duration epoch_time{};  // spent in its steps
  double trained_seconds = 0;
  double trained_samples = 0;
  Totals last_test;
};

}  // namespace dlrun::trainer
