// Runs each size with dlrun's own commands (`dlrun submit` or `dlrun run`) and reads the rate from
// their JSON. Calling dlrun itself keeps a single way of submitting and recording runs.

#include "launcher/bench/scaling.h"

#include <algorithm>
#include <chrono>
#include <csignal>

#include <nlohmann/json.hpp>

#include "common/json_read.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/view/exit_code.h"
#include "launcher/view/run_text.h"
#include "launcher/view/status_json.h"
#include "launcher/view/watch.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::hours kLongestRun{24 * 7};  // for a run on this machine
constexpr std::chrono::minutes kSlurmTimeout{10};  // for a command that only talks to Slurm
constexpr std::chrono::seconds kRemindEvery{60};   // how often to repeat why a job is pending
constexpr int kLargestSize = 10'000;

/// Returns the last JSON object in a command's output.
Json last_object(std::string_view out) {
  const auto at = out.rfind("\n{\n");
  auto json = json_read::object_of(at == std::string_view::npos ? out : out.substr(at + 1));
  return json ? std::move(*json) : Json::object();
}

/// Returns the reason for which a command failed: the last line of its standard error, without
/// dlrun's prefix; the exit code if the command printed no error.
std::string failure_reason(const FinishedCommand& finished) {
  std::string last =
      fmt::format("dlrun ended with code {} and printed no error message", finished.exit_code);
  for (const std::string_view line : split(finished.err, '\n')) {
    if (!trim(line).empty()) last = printable(trim(line));
  }
  for (const std::string_view prefix : {"dlrun: ", "error: "}) {
    if (last.starts_with(prefix)) last.erase(0, prefix.size());
  }
  return last;
}

/// Returns the rate of a run in samples per second: the trainer's own rate over all steps, or the
/// newest rate that another program has reported. status: as in `dlrun status --json`.
std::optional<double> rate_of(const Json& status) {
  for (const char* key : {"result", "progress"}) {
    const auto part = status.find(key);
    if (part == status.end()) continue;
    if (const auto rate = json_read::number(*part, "samples_per_s"); rate && *rate > 0) return rate;
  }
  return std::nullopt;
}

/// The outcome of one size.
struct Outcome {
  Json status = Json::object();  ///< as in `dlrun status --json`; empty if there is no run
  std::string failure;           ///< the reason of a failure; empty after a success
};

/// Passes on the reasons why a run waits, and ignores its log.
class NewsOnly final : public WatchListener {
 public:
  explicit NewsOnly(const ScalingListener& listener) : listener_(listener) {}
  bool on_log(std::string_view) override { return true; }
  bool on_log_batch_end() override { return true; }
  void on_next_log() override {}
  void on_news(const IndexEntry& run, const std::string& news) override {
    listener_.news(run.id, news);
  }

 private:
  const ScalingListener& listener_;
};

/// Runs the experiment at one size at a time. The constructor's arguments must outlive this object.
class SizeRunner {
 public:
  SizeRunner(const ScalingRequest& request, const Interrupt& interrupt,
             const ScalingListener& listener)
      : request_(request), interrupt_(interrupt), listener_(listener) {}

  Result<int> test_with_slurm(int size) const;
  Result<> measure(int size, MeasuredScaling& measured) const;

 private:
  [[nodiscard]] Command command_of(int size, const char* verb, const char* flag) const;
  [[nodiscard]] std::string size_text(int size) const;
  [[nodiscard]] tl::unexpected<Error> interruption_error() const;
  Result<Outcome> run_here(int size) const;
  Result<Outcome> run_through_slurm(int size) const;
  Result<Outcome> follow(const IndexEntry& run) const;
  void cancel(const IndexEntry& run) const;

  const ScalingRequest& request_;
  const Interrupt& interrupt_;
  const ScalingListener& listener_;
};

/// Returns `env` without DLRUN_LOG, so that dlrun's last line on stderr is the reason of a failure.
Env without_log(Env env) {
  env.unset("DLRUN_LOG");
  return env;
}

Command SizeRunner::command_of(int size, const char* verb, const char* flag) const {
  Command command;
  command.env = without_log(request_.env);
  command.timeout = request_.is_local ? std::chrono::milliseconds(kLongestRun) : kSlurmTimeout;
  command.argv = {request_.dlrun.string(), verb, request_.spec, flag};
  if (request_.runs_dir) command.argv.insert(command.argv.end(), {"--runs", *request_.runs_dir});
  for (const std::string& set : request_.set_arguments)
    command.argv.insert(command.argv.end(), {"--set", set});
  if (request_.is_local) {
    command.argv.insert(command.argv.end(), {"--set", "resources.nodes=1", "--set",
                                             fmt::format("resources.tasks_per_node={}", size)});
  } else {
    command.argv.insert(command.argv.end(), {"--set", fmt::format("resources.nodes={}", size)});
  }
  return command;
}

std::string SizeRunner::size_text(int size) const {
  return fmt::format("{} {}{}", size, request_.is_local ? "rank" : "node", size == 1 ? "" : "s");
}

tl::unexpected<Error> SizeRunner::interruption_error() const {
  return fail(Errc::kInterrupted, "interrupted{}",
              interrupt_.signal() == SIGTERM ? " (SIGTERM)" : "");
}

Result<Outcome> SizeRunner::run_here(int size) const {
  Command command = command_of(size, "run", "--json");
  command.is_interrupted = [this] { return interrupt_.requested(); };
  DLRUN_TRY_ASSIGN(const auto finished, run_command(command));
  if (interrupt_.requested() || finished.exit_code == kExitInterrupted) return interruption_error();
  if (finished.exit_code == kExitUsage) return fail(Errc::kUsage, "{}", trim(finished.err));
  return Outcome{last_object(finished.out),
                 finished.exit_code == 0 ? "" : failure_reason(finished)};
}

/// Cancels the submitted run and does not wait for it to end.
void SizeRunner::cancel(const IndexEntry& run) const {
  Command command;
  command.env = without_log(request_.env);
  command.argv = {request_.dlrun.string(), "cancel", run.path.string()};
  const auto finished = run_command(command);
  if (finished && finished->exit_code == 0)
    return listener_.note(fmt::format("{} is cancelled", run.id));
  listener_.warning(
      fmt::format("run {0} could not be cancelled ({1}); cancel it with `dlrun cancel {0}`", run.id,
                  finished ? failure_reason(*finished) : finished.error().message));
}

/// Waits until the run has ended. After a signal, cancels the run and fails with kInterrupted.
Result<Outcome> SizeRunner::follow(const IndexEntry& run) const {
  RunInspector inspector(request_.env, request_.servers);
  WatchOptions watch;
  watch.passes_log = false;
  watch.remind_every = kRemindEvery;
  NewsOnly news_only(listener_);
  const auto status = watch_run(inspector, run, watch, news_only, interrupt_);
  if (status)
    return Outcome{status_json(run, *status),
                   exit_code_of_state(*status) == kExitOk ? "" : end_text(run, *status)};
  if (status.error().code != Errc::kInterrupted) return tl::unexpected(status.error());
  cancel(run);
  return interruption_error();
}

Result<Outcome> SizeRunner::run_through_slurm(int size) const {
  DLRUN_TRY_ASSIGN(const auto sent, run_command(command_of(size, "submit", "--json")));
  const Json answer = last_object(sent.out);
  const IndexEntry run{json_read::text(answer, "run"), json_read::text(answer, "name"),
                       json_read::text(answer, "path"), ""};
  const bool has_job = !json_read::text(answer, "job").empty();
  if (interrupt_.requested() || sent.exit_code == kExitInterrupted) {
    if (has_job) cancel(run);
    return interruption_error();
  }
  if (sent.exit_code == kExitUsage) return fail(Errc::kUsage, "{}", trim(sent.err));
  if (sent.exit_code != 0) return Outcome{Json::object(), failure_reason(sent)};
  if (!has_job) return Outcome{Json::object(), "`dlrun submit --json` printed no job id"};
  return follow(run);
}

/// Calls `submit --test-only`, and returns its exit code. Fails with kUsage if the spec is invalid
/// at this size, and with kInterrupted after a signal. Reports any other failure to the listener.
Result<int> SizeRunner::test_with_slurm(int size) const {
  DLRUN_TRY_ASSIGN(const auto finished, run_command(command_of(size, "submit", "--test-only")));
  if (interrupt_.requested()) return interruption_error();
  if (finished.exit_code == kExitUsage) return fail(Errc::kUsage, "{}", trim(finished.err));
  if (finished.exit_code != kExitOk)
    listener_.error(fmt::format("{}: {}", size_text(size), failure_reason(finished)));
  return finished.exit_code;
}

Result<> SizeRunner::measure(int size, MeasuredScaling& measured) const {
  DLRUN_TRY_ASSIGN(const auto outcome,
                   request_.is_local ? run_here(size) : run_through_slurm(size));
  const std::string run = json_read::text(outcome.status, "run");
  const auto rate = rate_of(outcome.status);
  const auto ranks = json_read::integer(outcome.status, "ranks");
  if (outcome.failure.empty() && rate && ranks && *ranks > 0) {
    measured.measurements.push_back(
        {request_.is_local ? 1 : size, static_cast<int>(*ranks), *rate, run});
    listener_.note(fmt::format("{}: {:.0f} samples/s ({})", size_text(size), *rate, run));
    return {};
  }
  std::string reason = outcome.failure;
  if (reason.empty())
    reason = rate ? "the run's record does not have the number of ranks"
                  : "the program reported no rate (samples/s)";
  measured.left_out.push_back({size, reason});
  listener_.warning(fmt::format("the size of {} is left out: {}", size_text(size), reason));
  return {};
}

}  // namespace

Result<std::vector<int>> parse_sizes(const std::string& text, const char* option) {
  std::vector<int> sizes;
  for (const std::string_view word : split(text, ',')) {
    const auto number = parse_int(word);
    if (!number || *number < 1 || *number > kLargestSize)
      return fail(Errc::kUsage, "{}: '{}' is not a number from 1 to {}", option, printable(word),
                  kLargestSize);
    sizes.push_back(static_cast<int>(*number));
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

Result<int> check_sizes_with_slurm(const ScalingRequest& request, const Interrupt& interrupt,
                                   const ScalingListener& listener) {
  const SizeRunner runner(request, interrupt, listener);
  int code = kExitOk;
  for (const int size : request.sizes) {
    const auto tested = runner.test_with_slurm(size);
    if (!tested) return tested;
    if (code == kExitOk) code = *tested;
  }
  return code;
}

Result<MeasuredScaling> measure_scaling(const ScalingRequest& request, const Interrupt& interrupt,
                                        const ScalingListener& listener) {
  const SizeRunner runner(request, interrupt, listener);
  MeasuredScaling measured;
  for (const int size : request.sizes) DLRUN_TRY(runner.measure(size, measured));
  std::stable_sort(measured.measurements.begin(), measured.measurements.end(),
                   [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
  return measured;
}

Json scaling_json(const ScalingRequest& request, const MeasuredScaling& measured,
                  const ScalingPrediction& prediction) {
  const auto& measurements = measured.measurements;
  Json json;
  json["spec"] = request.spec;
  Json& results = json["results"] = Json::array();
  for (const ScalingMeasurement& m : measurements) {
    results.push_back({{"nodes", m.nodes},
                       {"ranks", m.ranks},
                       {"samples_per_s", m.samples_per_s},
                       {"speed_up", speed_up(measurements, m.samples_per_s)},
                       {"efficiency", efficiency(measurements, m.ranks, m.samples_per_s)},
                       {"run", m.run}});
  }
  Json& left_out = json["left_out"] = Json::array();
  for (const LeftOutSize& one : measured.left_out) {
    left_out.push_back({{"nodes", request.is_local ? Json(nullptr) : Json(one.size)},
                        {"ranks", request.is_local ? Json(one.size) : Json(nullptr)},
                        {"reason", one.reason}});
  }
  Json& models = json["models"] = Json::array();
  for (const ScalingModel& m : prediction.models)
    models.push_back(
        {{"compute_s", m.compute_s}, {"latency_s", m.latency_s}, {"transfer_s", m.transfer_s}});
  Json& modelled = json["modelled"] = Json::array();
  for (const ModelledRate& m : prediction.modelled) {
    modelled.push_back({{"ranks", m.ranks},
                        {"samples_per_s_low", m.low},
                        {"samples_per_s_high", m.high},
                        {"efficiency_low", efficiency(measurements, m.ranks, m.low)},
                        {"efficiency_high", efficiency(measurements, m.ranks, m.high)}});
  }
  return json;
}

Result<> check_can_be_scaled(const JobSpec& spec, const std::string& file) {
  if (spec.sweep.is_given())
    return fail(Errc::kUsage,
                "{}: is a sweep; `bench scaling` measures one experiment at several sizes",
                printable(file));
  if (!spec.components.empty())
    return fail(Errc::kUsage,
                "{}: has components; `bench scaling` measures one program at several sizes: "
                "name a spec that starts only one of the programs",
                printable(file));
  if (spec.resources.ntasks) {
    return fail(Errc::kUsage,
                "{}: resources.ntasks gives every size the same number of ranks; set "
                "resources.tasks_per_node instead",
                printable(file));
  }
  return {};
}

ScalingPrediction predict_for(const JobSpec& spec,
                              const std::vector<ScalingMeasurement>& measurements) {
  constexpr std::int64_t kDefaultBatch = 32;  // of the trainer, without train.batch
  const bool is_trainer = spec.launch.preset.value_or("trainer") == "trainer";
  const double batch =
      is_trainer ? static_cast<double>(spec.train.batch.value_or(kDefaultBatch)) : 1;
  ScalingPrediction prediction;
  prediction.models = fit_scaling(measurements, batch);
  prediction.modelled = predict_scaling(measurements, prediction.models, batch);
  if (!is_trainer) prediction.modelled_work = "sample on each rank";
  return prediction;
}

}  // namespace dlrun
