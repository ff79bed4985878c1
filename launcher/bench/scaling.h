#pragma once
// Measures how an experiment scales (`dlrun bench scaling`): starts one run for each size (a number
// of nodes or of ranks), one after the other, and reads the samples per second of each run.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/env.h"
#include "common/interrupt.h"
#include "common/result.h"
#include "launcher/bench/scaling_model.h"
#include "launcher/spec/known_servers.h"
#include "launcher/spec/spec.h"

namespace dlrun {

struct ScalingRequest {
  std::filesystem::path dlrun;  ///< the path of the program dlrun, which starts the runs
  Env env;
  KnownServers servers;
  std::string spec;                        ///< the spec's file
  std::vector<std::string> set_arguments;  ///< the values of --set: KEY=VALUE
  std::optional<std::string> runs_dir;     ///< the value of --runs
  bool is_local = false;   ///< sizes are numbers of ranks on this machine; otherwise of nodes
  std::vector<int> sizes;  ///< ascending
};

/// A size without a rate.
struct LeftOutSize {
  int size = 0;  ///< a number of ranks or of nodes, as in ScalingRequest::sizes
  std::string reason;
};

struct MeasuredScaling {
  std::vector<ScalingMeasurement> measurements;  ///< sorted by ranks
  std::vector<LeftOutSize> left_out;
};

/// Receives messages while the sizes are measured.
struct ScalingListener {
  std::function<void(const std::string&)> note, warning, error;
  /// Receives the reason why a run waits.
  std::function<void(const std::string& run, const std::string& news)> news;
};

/// Parses a list such as "1,2,4". Returns its distinct numbers in ascending order. Fails with
/// kUsage unless each number is from 1 to 10,000; the message contains `option`.
[[nodiscard]] Result<std::vector<int>> parse_sizes(const std::string& text, const char* option);

/// Calls `dlrun submit --test-only` for every size. Callers do this before measure_scaling():
/// otherwise a size that Slurm never starts would be noticed only after the smaller sizes have run.
/// Reports each refusal as an error. Returns the exit code of the first size that was refused, 0 if
/// none was. Fails with kUsage if the spec is invalid at a size, and with kInterrupted after a
/// signal.
[[nodiscard]] Result<int> check_sizes_with_slurm(const ScalingRequest& request,
                                                 const Interrupt& interrupt,
                                                 const ScalingListener& listener);

/// Measures all sizes. Leaves out a size, with a warning, if its run fails or has no rate. Fails
/// with kUsage if the spec is invalid at a size. Fails with kInterrupted after a signal; the run
/// that was submitted last is then cancelled.
[[nodiscard]] Result<MeasuredScaling> measure_scaling(const ScalingRequest& request,
                                                      const Interrupt& interrupt,
                                                      const ScalingListener& listener);

/// Fails with kUsage unless the spec is one experiment with one program, and the number of ranks
/// follows from the number of nodes. file: the spec's file, for the message.
[[nodiscard]] Result<> check_can_be_scaled(const JobSpec& spec, const std::string& file);

/// The models of the measured rates, and the rates that they predict for more ranks.
struct ScalingPrediction {
  std::vector<ScalingModel> models;
  std::vector<ModelledRate> modelled;
  /// The work for which the models give the time: "step", or "sample on each rank" if the batch of
  /// the program is unknown.
  const char* modelled_work = "step";
};
/// Fits the models to the rates of the experiment, and predicts the rates for more ranks. The batch
/// of a program other than the trainer is unknown; the models then describe one sample of each
/// rank.
[[nodiscard]] ScalingPrediction predict_for(const JobSpec& spec,
                                            const std::vector<ScalingMeasurement>& measurements);

/// Returns the JSON of `dlrun bench scaling --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json scaling_json(const ScalingRequest& request,
                                                  const MeasuredScaling& measured,
                                                  const ScalingPrediction& prediction);

}  // namespace dlrun
