#pragma once
// Reports the progress and the result of training: to users on stdout, to tools in metrics.jsonl,
// and to the run's record through the store. Rank 0 reports everything; the other ranks report only
// their step and the time of their work, to the store.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/files.h"
#include "common/result.h"
#include "runtime/trainer/loop/label_scores.h"

namespace dlrun {
class Store;
}

namespace dlrun::trainer {

struct StepReport {
  std::size_t epoch = 0;          ///< current epoch, from 1
  std::uint64_t step = 0;         ///< steps done since the start of training
  std::uint64_t total_steps = 0;  ///< steps of the whole training
  double part_done = 0;           ///< part of the training that is done, 0..1
  /// Mean over this step's samples on all ranks. With local steps, the mean over all samples since
  /// the ranks last averaged their parameters: over those of all ranks if the ranks average after
  /// this step, otherwise over those of rank 0.
  double loss = 0;
  double accuracy = 0;
  std::size_t samples = 0;  ///< of all ranks in this step
  /// Time of this rank's own work in the step, without the time it waits for other ranks. All ranks
  /// finish their steps together, so only this time shows which rank is slow.
  std::chrono::duration<double> work{};
  double learning_rate = 0;  ///< of the next step
};

struct EpochReport {
  std::size_t epoch = 0;   ///< the epoch that has ended, from 1
  std::uint64_t step = 0;  ///< steps done since the start of training
  /// Mean over the epoch's training samples, each evaluated with the parameters before its step.
  double loss = 0;
  double accuracy = 0;
  double test_loss = 0;
  double test_accuracy = 0;
  double samples_per_s = 0;                   ///< of all ranks, training only
  std::optional<LabelScores> label_scores{};  ///< of the test data, if samples have several labels
};

struct FinalReport {
  double test_loss = 0;
  double test_accuracy = 0;
  std::size_t test_samples = 0;
  std::string parameters_hash;  ///< equal on all ranks
  int ranks = 1;
  std::uint64_t steps = 0;
  double seconds = 0;        ///< time of this process's steps, without tests and checkpoints
  double samples_per_s = 0;  ///< of all ranks, over these seconds
  std::optional<LabelScores> label_scores{};  ///< of the test data, if samples have several labels
};

class TrainingReporter {
 public:
  struct Options {
    bool is_main = true;  ///< true on rank 0 only; the other ranks have no output and no metrics
    bool is_terminal = false;  ///< stdout and stderr are a terminal: a line can be rewritten
    std::optional<std::filesystem::path> metrics;  ///< metrics.jsonl, opened for appending
    Store* store = nullptr;                        ///< for the run's record; may be nullptr
    int attempt = 0;                         ///< number of this attempt of the run, for the metrics
    std::size_t epochs = 1;                  ///< the result of epochs_per_rank()
    std::string_view precision = "float32";  ///< of matrix products; must outlive the reporter
  };

  /// Opens the metrics file if is_main is true and Options::metrics has a path. Fails with kIo.
  [[nodiscard]] static Result<TrainingReporter> open(const Options& options);

  void note(const std::string& line);          ///< prints a line on stdout if is_main
  void report_step(const StepReport& report);  ///< call after every step; shows only some steps
  void report_epoch(const EpochReport& report);
  /// Reports that the checkpoint of this step is written.
  void report_checkpoint(std::uint64_t step);
  void report_result(const FinalReport& report);

  /// Returns the first failure to write metrics or the record. Training must stop then.
  [[nodiscard]] const Result<>& status() const { return status_; }

 private:
  using Clock = std::chrono::steady_clock;

  explicit TrainingReporter(const Options& options) : options_(options) {}
  /// On a rank other than 0, reports this rank's step and time of work.
  void report_own_work(const StepReport& report, Clock::time_point now);
  [[nodiscard]] double take_work_ms();
  void print_line(const std::string& line);
  void print_classes(const LabelScores& scores);
  void write_metrics(const std::string& json);
  /// Remembers the first failure in status_.
  void remember_failure(const Result<>& result);

  Options options_;
  UniqueFd metrics_;
  Result<> status_;
  Clock::time_point start_ = Clock::now();
  double part_done_at_start_ = -1;          // `part_done` at the first step; -1: no step yet
  Clock::time_point shown_at_ = start_;     // time of the last line about a step
  Clock::time_point reported_at_ = start_;  // time of the last report for metrics and record
  std::size_t samples_since_shown_ = 0;
  std::size_t samples_since_reported_ = 0;
  std::size_t steps_since_reported_ = 0;
  std::chrono::duration<double> work_since_reported_{};
  std::size_t line_width_ = 0;  // length of the progress line to overwrite
};

}  // namespace dlrun::trainer
