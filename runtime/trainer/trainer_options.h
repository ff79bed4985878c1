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

struct Options {
  DataOptions data;
  TrainOptions train;
  std::string backend = "auto";
  std::string device = "cpu";
  Precision precision = Precision::kFloat32;
  bool has_cuda_graphs = false;
  int threads = 1;
  std::optional<std::filesystem::path> metrics;
  bool wants_help = false;
};

/// Options of `dlrun-trainer digits ...`, which writes generated digits as files.
struct DigitsOptions {
  std::filesystem::path out;
  std::size_t train_samples = 8000;
  std::size_t test_samples = 2000;
  std::uint64_t seed = 1;
  std::size_t partitions = 0;
  bool wants_help = false;
};

/// Parses the arguments, without the program's name. Two variables of the environment set defaults:
/// DLRUN_RUN sets the directory of checkpoints, metrics and traces, and with DLRUN_ATTEMPT > 0
/// training resumes. Fails with kUsage for an unknown flag (suggests the nearest one) or a missing
/// or invalid value.
[[nodiscard]] Result<Options> parse_options(std::span<const std::string> args, const Env& env);
[[nodiscard]] Result<DigitsOptions> parse_digits_options(std::span<const std::string> args);

[[nodiscard]] std::string help_text();
[[nodiscard]] std::string digits_help_text();

}  // namespace dlrun::trainer
