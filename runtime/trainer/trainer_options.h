#pragma once
// The command line of dlrun-trainer.

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "common/env.h"
#include "common/result.h"
#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/loop/trainer.h"

namespace dlrun::trainer {

/// The values of all flags of training. help_text() describes each flag.
struct Options {
  DataOptions data;
  TrainOptions train;
  std::string backend = "auto";  ///< for make_communicator()
  std::string device = "cpu";    ///< "cpu" or "cuda"
  Precision precision = Precision::kFloat32;
  bool uses_cuda_graphs = false;
  int threads = 1;                               ///< CPU threads of each rank
  std::optional<std::filesystem::path> metrics;  ///< file of the metrics; not set: no file
  bool wants_help = false;
};

/// Options of `dlrun-trainer digits ...`, which writes generated digits as files.
struct DigitsOptions {
  std::filesystem::path out;
  std::size_t train_samples = 8000;
  std::size_t test_samples = 2000;
  std::uint64_t seed = 1;
  std::size_t partitions = 0;  ///< number of files of training data; 0: IDX files instead
  bool wants_help = false;
};

/// Parses the arguments, without the program's name. Two variables of the environment set defaults:
/// DLRUN_RUN sets the directory of checkpoints, metrics and traces, and with DLRUN_ATTEMPT > 0
/// training resumes. Fails with kUsage as parse_into() does, and for flags that exclude each other
/// or lack another flag that they need.
[[nodiscard]] Result<Options> parse_options(std::span<const std::string> args, const Env& env);
/// Parses the arguments after `digits`. Fails with kUsage as parse_into() does, if both --out and
/// --help are missing, and for more partitions than training images.
[[nodiscard]] Result<DigitsOptions> parse_digits_options(std::span<const std::string> args);

[[nodiscard]] std::string help_text();
[[nodiscard]] std::string digits_help_text();

}  // namespace dlrun::trainer
