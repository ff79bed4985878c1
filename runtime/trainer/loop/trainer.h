#pragma once
// Data-parallel training, one Trainer a rank.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/data/sampler.h"
#include "runtime/trainer/loop/reporter.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/optim/optimizer.h"
#include "runtime/trainer/optim/schedule.h"
#include "runtime/trainer/parallel/gradient_reducer.h"

namespace dlrun::trainer {

enum class Loss {
  kSoftmax,  ///< cross-entropy of classes that exclude each other
  kSigmoid,  ///< binary cross-entropy of each class for itself
};

struct TrainOptions {
  std::string model = "mlp";
  std::vector<std::size_t> hidden{512};  ///< of mlp
  std::vector<std::string> layers;  ///< the model in words (nn/model.h), in place of a named one
  Loss loss = Loss::kSoftmax;
  OptimizerOptions optimizer;
  double learning_rate = 1e-3;
  LrScaling lr_scaling = LrScaling::kNone;
  LrDecay lr_decay = LrDecay::kLinear;
  double warmup_epochs = 0;
  std::vector<double> lr_steps;  ///< epochs, ascending; of LrDecay::kStep, as the next
  double lr_step_factor = 0.1;
  double lr_power = 2;     ///< of LrDecay::kPolynomial
  double clip_norm = 0;    ///< the gradients' global norm is held to this; 0: as it is
  std::size_t batch = 32;  ///< per rank
  std::size_t micro_batch =
      0;  ///< at most so many of them at once, gradients are accumulated; 0: all
  std::size_t epochs = 4;
  std::uint64_t seed = 1;
  Sharding sharding = Sharding::kSample;
  GradientReducer::Options buckets;
  bool has_sharded_state = false;  ///< ZeRO-1: parallel/sharded_step.h
  std::size_t local_steps =
      0;  ///< steps of a rank's own between averages: parallel/local_steps.h; 0: none
  double local_after = 0;  ///< epochs of common steps before them

  std::filesystem::path checkpoint_dir;  ///< used on rank 0
  /// Steps; 0: at the end of each epoch. The end of training is always saved. What is due while
  /// ranks take steps of their own is saved at their next average.
  std::size_t checkpoint_every = 0;
  std::size_t checkpoint_keep = 3;  ///< 0: no checkpoints
  std::size_t trace_steps =
      0;  ///< so many steps of this attempt are put on a timeline: loop/trace.h
  std::filesystem::path trace_prefix;
  bool resume = false;  ///< go on from the newest valid checkpoint, if there is one
};

/// What a Trainer works with; all of it outlives the Trainer and belongs to the same thread.
struct Session {
  Communicator& communicator;
  Kernels<float>& kernels;
  Reporter& reporter;
  std::string host;                                                  ///< for messages
  std::function<Result<>()> may_commit = [] { return Result<>(); };  ///< checkpoint.h
  std::atomic<bool>* save_requested =
      nullptr;  ///< set by a signal: save after the next step, then go on
};

struct Outcome {
  double test_accuracy = 0;
  double test_loss = 0;
  std::string parameters_hash;
  std::uint64_t steps = 0;
};

class Trainer {
 public:
  /// data outlives the Trainer.
  Trainer(const TrainOptions& options, const Split& data, const Session& session);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains to the end. An error that only one rank has (a full disk) is every rank's, with its
  /// name and host. Fails with kInvalid (loss not finite, checkpoint of another model), kRefused
  /// (the folder holds another run's checkpoints, another attempt owns the run), kPeer (ranks
  /// differ, or one is gone), kIo, kTimeout, kUsage.
  [[nodiscard]] Result<Outcome> run();

  /// The flat parameters, in host memory. Valid after run().
  [[nodiscard]] std::vector<float> parameters();

 private:
  struct Parts;
  struct Totals;

  [[nodiscard]] Result<> build();
  /// What all ranks' data are together, where each has its own.
  [[nodiscard]] Result<> survey();
  /// What this build of backend, device and rule cannot do together.
  [[nodiscard]] Result<> check_parallelism(const Optimizer<float>& rule) const;
  /// Every rank has samples, and one at least enough of them for a batch.
  [[nodiscard]] Result<> check_shards() const;
  /// Ranks that were started differently would train a nonsense, or wait for each other forever.
  [[nodiscard]] Result<> check_that_ranks_are_alike() const;
  /// The gradients of all ranks together, unless this is a local step, and the optimizer's step by
  /// them.
  [[nodiscard]] Result<> update(StepInfo info, bool is_local);
  /// The error of a step whose samples' loss, all ranks' together, is not finite: of the lowest
  /// rank whose own is not.
  [[nodiscard]] Result<> not_finite(double loss, double epochs_done);
  /// Of the network's output for n samples and their labels: totals += loss and right answers; with
  /// gradient, its derivative, times scale, is the network's output gradient.
  void loss(std::size_t n, float scale, float* gradient, float* totals);
  [[nodiscard]] Result<> start_or_resume();
  [[nodiscard]] std::uint64_t epoch_ranks() const;  ///< TrainingState
  [[nodiscard]] Result<> step();
  [[nodiscard]] Result<> save();
  [[nodiscard]] Result<> write_trace();
  [[nodiscard]] Result<> end_epoch();
  [[nodiscard]] Result<Totals> evaluate();

  const TrainOptions options_;
  const Split& data_;
  const Session session_;
  std::vector<std::size_t> rank_samples_;  // Sampler::Options
  std::size_t classes_ = 0;
  std::size_t train_samples_ = 0;  // of all ranks together
  std::unique_ptr<Parts> parts_;
};

}  // namespace dlrun::trainer
