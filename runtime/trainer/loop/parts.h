#pragma once
// The members of a Trainer. Used only inside loop/.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/trainer/checkpoint/checkpoint.h"
#include "runtime/trainer/loop/label_scores.h"
#include "runtime/trainer/loop/trace.h"
#include "runtime/trainer/loop/trainer.h"
#include "runtime/trainer/nn/network.h"
#include "runtime/trainer/parallel/gradient_exchange.h"
#include "runtime/trainer/parallel/optimizer_state.h"
#include "runtime/trainer/parallel/shared_arrays.h"

namespace dlrun::trainer {

using Clock = std::chrono::steady_clock;

/// Indices of the step's sums, which are stored after the gradients (Network::extra): the sum of
/// the losses, the number of right answers, and the number of ranks that ask for a checkpoint.
/// kStepSumCount is the number of these sums. Usually the all-reduce of the gradients adds them up
/// over all ranks. Decision 24 (docs/decisions/0024-facts-of-a-step-travel-with-the-gradients.md)
/// lists the steps that use another all-reduce.
enum StepSum : std::size_t { kLossSum, kCorrect, kSaveRequests, kStepSumCount };

inline constexpr float kPixelScale = 1.0F / 255;

/// Returns the largest number of samples that pass through the network together in training.
[[nodiscard]] inline std::size_t samples_per_pass(const TrainOptions& options) {
  return options.micro_batch == 0 ? options.batch : std::min(options.micro_batch, options.batch);
}

[[nodiscard]] inline ImageShape image_shape(const Dataset& data) {
  return {data.height, data.width, data.features / (data.height * data.width)};
}

/// Sums over the samples of all ranks.
struct Trainer::Totals {
  double loss = 0;
  double correct = 0;
  double samples = 0;
  /// [3 x classes] of LayerKernels::count_confusions; empty if each sample has one class.
  std::vector<double> confusion_counts{};

  [[nodiscard]] double mean_loss() const { return samples > 0 ? loss / samples : 0; }
  [[nodiscard]] double accuracy() const { return samples > 0 ? correct / samples : 0; }
  [[nodiscard]] std::optional<LabelScores> label_scores() const {
    return confusion_counts.empty() ? std::nullopt : std::optional(scores_of(confusion_counts));
  }
};

struct Trainer::Parts {
  Parts(const TrainOptions& options, const Split& data, const Session& session,
        Layers<float> layers, std::unique_ptr<Optimizer<float>> chosen_optimizer,
        const std::vector<std::size_t>& rank_samples);

  /// Makes the exchange of gradients: make_shared_exchange() if the arrays are in shared memory,
  /// else the one that the options select.
  [[nodiscard]] std::unique_ptr<GradientExchange> make_exchange(const TrainOptions& options,
                                                                const Session& session);

  std::size_t max_forward_samples;  // maximum number of samples in one forward pass
  SharedArrays shared;
  Network<float> network;
  std::unique_ptr<Optimizer<float>> optimizer;
  std::vector<TensorRange> tensors;  // the tensors' ranges in the flat arrays
  OptimizerState optimizer_state;
  std::unique_ptr<GradientExchange> exchange;
  Sampler sampler;
  DeviceData train;
  DeviceData test;
  Array<std::uint8_t> labels;  // labels of the batch
  Array<float> originals;      // training images before augmentation; empty without augmentation
  Array<float> test_sums;      // of an evaluation: sum of the losses, number of right answers
  // In an evaluation with several labels per sample: LayerKernels::count_confusions, [3 x classes].
  Array<std::uint32_t> confusion_counts;
  Array<float> own_loss;  // this rank's sum of losses since the step's sums were set to zero
  Array<float> accumulated_gradients;  // gradients of earlier micro-batches; zero between steps
  CheckpointFolder checkpoints;
  std::unique_ptr<Trace> trace;   // nullptr: no trace was requested
  bool uses_cuda_graphs = false;  // steps run as CUDA graphs: Kernels::begin_step
  Clock::duration waited{};       // time that the current step has waited for other ranks
  Result<> sum_status;            // first failure of sum_over_ranks
  SumOverRanks sum_over_ranks;    // for layers that communicate
  Schedule schedule;
  Position position;
  bool is_save_due = false;      // save at the end of this step or epoch
  Totals epoch_totals;           // of the training samples of the current epoch so far
  Clock::duration epoch_time{};  // time spent in the steps of the current epoch
  double trained_seconds = 0;    // time in the steps of this process's completed epochs
  double trained_samples = 0;    // number of samples in these epochs
  Totals last_test;              // result of the latest evaluation
};

}  // namespace dlrun::trainer
