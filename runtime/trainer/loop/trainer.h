#pragma once
// Data-parallel training. Each rank has one Trainer.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/checkpoint/checkpoint.h"
#include "runtime/trainer/data/augmentation.h"
#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/data/sampler.h"
#include "runtime/trainer/loop/label_scores.h"
#include "runtime/trainer/loop/training_reporter.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/optim/optimizer.h"
#include "runtime/trainer/optim/schedule.h"
#include "runtime/trainer/parallel/gradient_exchange.h"
#include "runtime/trainer/parallel/gradient_reducer.h"

namespace dlrun::trainer {

enum class Loss {
  kSoftmax,  ///< cross-entropy of mutually exclusive classes
  kSigmoid,  ///< binary cross-entropy of each class separately
};

struct TrainOptions {
  std::string model = "mlp";
  std::vector<std::size_t> hidden_widths{512};  ///< of the hidden layers, for the model mlp
  std::vector<std::string> layers;  ///< layers of the model as text (nn/model.h); replaces `model`
  Loss loss = Loss::kSoftmax;
  OptimizerOptions optimizer;
  double learning_rate = 1e-3;
  LrScaling lr_scaling = LrScaling::kNone;
  LrDecay lr_decay = LrDecay::kLinear;
  double warmup_epochs = 0;
  std::vector<double> lr_step_epochs;  ///< for LrDecay::kStep, ascending
  double lr_step_factor = 0.1;         ///< for LrDecay::kStep
  double lr_power = 2;                 ///< for LrDecay::kPolynomial
  double clip_norm = 0;                ///< limit for the gradients' global norm; 0: no limit
  std::size_t batch = 32;              ///< samples per rank and step
  /// Largest number of samples that pass through the network together; the gradients of a batch are
  /// accumulated. 0: the whole batch.
  std::size_t micro_batch = 0;
  std::size_t epochs = 4;
  std::uint64_t seed = 1;
  Augmentation augmentation;  ///< changes of training images; test images do not change
  Sharding sharding = Sharding::kSample;
  GradientReducer::Options bucket_options;
  bool has_sharded_state = false;  ///< ZeRO stage 1: parallel/sharded_exchange.cc
  /// Number of steps after which the ranks average their parameters (parallel/local_exchange.cc).
  /// 0: the ranks combine their gradients in every step.
  std::size_t local_steps = 0;
  double epochs_before_local_steps = 0;

  std::filesystem::path checkpoint_dir;  ///< used on rank 0 only
  /// Steps between checkpoints; 0: at the end of each epoch. Unless checkpoint_keep is 0, the end
  /// of training is saved in any case. A checkpoint that becomes due during local steps is saved at
  /// the next average.
  std::size_t checkpoint_every = 0;
  std::size_t checkpoint_keep = 3;     ///< 0: no checkpoints
  std::size_t trace_steps = 0;         ///< number of steps to record in a timeline (loop/trace.h)
  std::filesystem::path trace_prefix;  ///< Trace::Options::prefix
  bool should_resume = false;          ///< start from the newest valid checkpoint, if there is one
};

/// Objects that a Trainer uses. They must outlive the Trainer. Only the thread that calls the
/// Trainer may use them.
struct Session {
  Communicator& communicator;
  Kernels<float>& kernels;
  TrainingReporter& reporter;
  std::string host;                                                        ///< for messages
  std::function<Result<>()> check_may_commit = [] { return Result<>(); };  ///< see checkpoint.h
  /// A signal handler sets this flag. The ranks then save a checkpoint after the next step (with
  /// local steps: after the next average) and continue. nullptr: no signal requests a checkpoint.
  std::atomic<bool>* save_requested = nullptr;
};

struct Outcome {
  double test_accuracy = 0;
  double test_loss = 0;
  /// First 16 hex digits of the hash of the parameters and the running statistics; equal on all
  /// ranks.
  std::string parameters_hash;
  std::uint64_t steps = 0;
  std::optional<LabelScores> label_scores{};  ///< of the test data, if samples have several labels
};

class Trainer {
 public:
  /// `data` must outlive the Trainer.
  Trainer(const TrainOptions& options, const Split& data, const Session& session);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains to the end. If only one rank fails (for example: disk full), every rank returns that
  /// error with the rank and its host. If a rank's device fails during a step, the other ranks
  /// fail as if that rank were lost. Fails with kInvalid (a number is not finite, too few samples,
  /// checkpoint of another model), kRefused (the directory has checkpoints, but should_resume is
  /// false, or another attempt owns the run), kPeer (ranks differ, or one is lost), kInternal (the
  /// device has failed), kIo, kTimeout or kUsage.
  [[nodiscard]] Result<Outcome> run();

  /// Returns the flat parameters in host memory. Valid after run().
  [[nodiscard]] std::vector<float> parameters();

 private:
  struct Parts;
  struct Totals;

  // All ranks call these functions in the same order, unless a comment says that only rank 0 does.

  /// Checks options, data and ranks, creates parts_, and calls report_setup().
  [[nodiscard]] Result<> build();
  /// Sets classes_ and train_samples_. If each rank reads its own files, also sets rank_samples_;
  /// all ranks must then call this function.
  [[nodiscard]] Result<> count_samples_and_classes();
  /// Checks that backend, device and optimizer support the chosen kind of parallelism.
  [[nodiscard]] Result<> check_parallelism(const Optimizer<float>& optimizer) const;
  /// Checks that every rank has samples, and that at least one rank has enough samples for a batch.
  [[nodiscard]] Result<> check_shards() const;
  /// Checks that all ranks have the same options and the same shape of data. Otherwise the result
  /// would be wrong, or a rank would wait forever.
  [[nodiscard]] Result<> check_that_ranks_are_alike() const;
  /// Checks the data and options of the model and makes its layers.
  [[nodiscard]] Result<Layers<float>> check_and_make_layers() const;
  /// Prints the data, the model and the most important settings.
  void report_setup();
  /// Returns the error for a step whose total loss is not finite. The message names the lowest rank
  /// whose own loss is not finite, or no rank if only the total is not finite. All ranks must call
  /// it.
  [[nodiscard]] Result<> loss_error(double loss, double epochs_done);
  /// Copies training samples to the network's input, with the changes that options_.augmentation
  /// describes, and copies their labels.
  void load_samples(std::span<const std::uint32_t> samples);
  /// Computes the loss of the network's output for n samples. Adds the loss and the number of right
  /// answers to totals, [2]. If gradient is not nullptr, writes the derivative times scale into
  /// gradient, [n x classes].
  void compute_loss(std::size_t n, float scale, float* gradient, float* totals);
  /// Gives all ranks rank 0's initial values, or the state of its newest checkpoint.
  [[nodiscard]] Result<> start_or_resume();
  /// Returns the newest valid checkpoint, or nothing. Prints a line for each newer checkpoint that
  /// is damaged or unfinished. Only rank 0 calls this function. Fails if the run cannot continue
  /// from the newest valid checkpoint, or as CheckpointFolder::load_newest() does.
  [[nodiscard]] Result<std::optional<TrainingState>> load_checkpoint();
  /// Checks that the directory holds no checkpoints, for a start without --resume. Only rank 0
  /// calls this function.
  [[nodiscard]] Result<> check_that_no_checkpoints_exist() const;
  /// Returns the number of sequences of epochs: with Sharding::kEpoch each rank has its own
  /// sequence, otherwise all ranks share one.
  [[nodiscard]] std::uint64_t epoch_sequence_count() const;
  /// Does one step of training, and saves a checkpoint if one is due within the epoch.
  [[nodiscard]] Result<> step();
  /// Prepares the step's sums (StepSum). Sets them to zero if all ranks have equal parameters
  /// before the step. Sets this rank's kSaveRequests to 1 if a signal handler has requested a save
  /// and scope.makes_ranks_equal is true. In other steps the request waits. Sets the observed
  /// statistics to zero.
  void start_step_sums(const StepScope& scope);
  /// Computes the gradients of the loss of this rank's samples, divided by `divisor`. Adds the loss
  /// and the number of right answers to the step's sums (StepSum). Tells the exchange which layers'
  /// gradients are final, so that it can begin to send them.
  void forward_and_backward(const Batch& batch, std::size_t divisor);
  /// Records the intervals of the step's exchange if there is a trace.
  void trace_exchange();
  /// Reports a finished step. If all ranks have equal parameters after the step, first adds `sums`
  /// to the epoch's sums. sums: the step's sums (StepSum).
  void add_and_report_step(const Batch& batch, const StepScope& scope, std::span<const float> sums,
                           std::chrono::steady_clock::time_point start);
  /// Saves a checkpoint on rank 0. Does nothing if checkpoint_keep is 0. Fails with kInvalid if a
  /// parameter, a running statistic or the optimizer's state is not finite.
  [[nodiscard]] Result<> save();
  /// Writes the timeline, and prints the path of rank 0's file.
  [[nodiscard]] Result<> write_trace();
  /// Saves a checkpoint if one is due, evaluates, and reports the epoch.
  [[nodiscard]] Result<> end_epoch();
  /// Returns the sums over the test samples. Each rank evaluates an equal part of them.
  [[nodiscard]] Result<Totals> evaluate();

  const TrainOptions options_;
  const Split& data_;
  const Session session_;
  std::vector<std::size_t> rank_samples_;  // see Sampler::Options
  std::size_t classes_ = 0;
  std::size_t train_samples_ = 0;  // of all ranks together
  std::unique_ptr<Parts> parts_;
};

}  // namespace dlrun::trainer
