#pragma once
// What a run says while it goes on and at its end: to people on stdout, to tools in metrics.jsonl,
// to the run's record through the store. Rank 0 reports; the others tell the store how far they
// are, and nothing else.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/files.h"
#include "common/result.h"

namespace dlrun {
class Store;
}

namespace dlrun::trainer {

struct StepReport {
  std::size_t epoch = 0;    ///< under way, from 1
  std::uint64_t step = 0;   ///< done, since the start of training
  std::uint64_t steps = 0;  ///< that all of it takes
  double done = 0;          ///< part of all training that is done, 0..1
  double loss = 0;  ///< mean over this step's samples on all ranks, or of what rank 0 took alone
                    ///< since the last average
  double accuracy = 0;
  std::size_t samples = 0;  ///< of all ranks in this step
  /// This rank's own work on the step, without waiting for the others: who is slow shows nowhere
  /// else, since all ranks take their steps together.
  std::chrono::duration<double> work{};
};

struct EpochReport {
  std::size_t epoch = 0;  ///< that has ended, from 1
  std::uint64_t step = 0;
  double loss =
      0;  ///< mean over the epoch's training samples, as the parameters were when each was seen
  double accuracy = 0;
  double test_loss = 0;
  double test_accuracy = 0;
  double samples_per_s = 0;  ///< of all ranks, training only
};

struct FinalReport {
  double test_loss = 0;
  double test_accuracy = 0;
  std::size_t test_samples = 0;
  std::string parameters;  ///< hash, the same on all ranks
  int ranks = 1;
  std::uint64_t steps = 0;
  double seconds = 0;
  double samples_per_s = 0;
};

class Reporter {
 public:
  struct Options {
    bool is_silent = false;                        ///< every rank but 0
    bool is_terminal = false;                      ///< stdout can rewrite a line
    std::optional<std::filesystem::path> metrics;  ///< metrics.jsonl to append to
    Store* store = nullptr;                        ///< the run's record; may be missing
    int attempt = 0;
    std::size_t epochs = 1;
    std::string_view precision = "float32";  ///< of the products; outlives the reporter
  };

  /// Fails with kIo when the metrics file cannot be opened.
  [[nodiscard]] static Result<Reporter> open(const Options& options);

  void note(const std::string& line);   ///< a line for people
  void step(const StepReport& report);  ///< call after every step; shows some of them
  void epoch(const EpochReport& report);
  void saved(std::uint64_t step);  ///< a checkpoint holds everything up to this step
  void finish(const FinalReport& report);

  /// The first failure to write metrics or the record. A run must not go on as if they were there.
  [[nodiscard]] const Result<>& status() const { return status_; }

 private:
  using Clock = std::chrono::steady_clock;

  explicit Reporter(const Options& options) : options_(options) {}
  void tell_rank(const StepReport& report, Clock::time_point now);
  [[nodiscard]] double work_ms();
  void print_line(const std::string& line);
  void write_metrics(const std::string& json);
  void keep(const Result<>& result);

  Options options_;
  UniqueFd metrics_;
  Result<> status_;
  Clock::time_point start_ = Clock::now();
  double done_at_start_ = -1;  // 'done' at the first step: a resumed run starts in the middle
  Clock::time_point shown_ = start_;
  Clock::time_point told_ = start_;
  std::size_t samples_since_shown_ = 0;
  std::size_t samples_since_told_ = 0;
  std::size_t steps_since_told_ = 0;
  std::chrono::duration<double> work_since_told_{};
  std::size_t line_width_ = 0;  // of the progress line on the terminal, to be overwritten
};

}  // namespace dlrun::trainer
