// Runs each size with dlrun's own commands (`dlrun submit` or `dlrun run`) and reads the rate from
// their JSON, then fits the model of scaling_chart.h.

#include "cli/bench_scaling.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/prepare.h"
#include "cli/report.h"
#include "cli/terminal/json_or_null.h"
#include "cli/terminal/print.h"
#include "cli/terminal/scaling_chart.h"
#include "cli/watch.h"
#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/runs/json_read.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::hours kAtMost{24 * 7};      // for a run on this machine
constexpr std::chrono::minutes kAnswerAtMost{10};  // for a command that only talks to Slurm
constexpr std::chrono::seconds kRemindEvery{60};   // why a job is pending
constexpr int kMostNodes = 10'000;
constexpr std::int64_t kTrainersBatch = 32;  // train.batch if the spec does not set it

struct LeftOut {
  int size;
  std::string reason;
};

struct Measured {
  std::vector<ScalingFigure> figures;
  std::vector<LeftOut> left_out;
};

Result<std::vector<int>> parse_sizes(const std::string& text, const char* option) {
  std::vector<int> sizes;
  for (const std::string_view word : split(text, ',')) {
    const auto number = parse_int(word);
    if (!number || *number < 1 || *number > kMostNodes)
      return fail(Errc::kUsage, "{}: '{}' is not a number from 1 to {}", option, printable(word),
                  kMostNodes);
    sizes.push_back(static_cast<int>(*number));
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// Returns dlrun's own command line for one size. Calling dlrun itself keeps a single way of
/// submitting and recording runs.
Command command_of(const Cli& cli, const ScalingOptions& options, int size, const char* verb,
                   const char* flag) {
  Command command;
  command.env = cli.env;
  command.timeout = options.local ? std::chrono::milliseconds(kAtMost) : kAnswerAtMost;
  command.argv = {(cli.bin_dir / "dlrun").string(), verb, options.spec.file, flag};
  if (options.spec.runs) command.argv.insert(command.argv.end(), {"--runs", *options.spec.runs});
  for (const std::string& set : options.spec.sets)
    command.argv.insert(command.argv.end(), {"--set", set});
  if (options.local) {
    command.argv.insert(command.argv.end(), {"--set", "resources.nodes=1", "--set",
                                             fmt::format("resources.tasks_per_node={}", size)});
  } else {
    command.argv.insert(command.argv.end(), {"--set", fmt::format("resources.nodes={}", size)});
  }
  return command;
}

/// Returns the last of the JSON objects that a command printed one after the other.
Json last_object(std::string_view out) {
  const auto at = out.rfind("\n{\n");
  auto json = json_read::object_of(at == std::string_view::npos ? out : out.substr(at + 1));
  return json ? std::move(*json) : Json::object();
}

/// Returns the last line of a command's standard error: the reason of the failure.
std::string last_line(const std::string& err) {
  std::string last = "it said nothing";
  for (const std::string_view line : split(err, '\n')) {
    if (!trim(line).empty()) last = printable(trim(line));
  }
  for (const std::string_view prefix : {"dlrun: ", "error: "}) {
    if (last.starts_with(prefix)) last.erase(0, prefix.size());
  }
  return last;
}

/// Returns the rate in samples per second from the run's record: the trainer's own rate over all
/// steps, or the last rate that another program reported.
std::optional<double> rate_of(const Json& status) {
  for (const char* key : {"result", "progress"}) {
    const auto part = status.find(key);
    if (part == status.end()) continue;
    if (const auto rate = json_read::number(*part, "samples_per_s"); rate && *rate > 0) return rate;
  }
  return std::nullopt;
}

std::string size_text(const ScalingOptions& options, int size) {
  return fmt::format("{} {}{}", size, options.local ? "rank" : "node", size == 1 ? "" : "s");
}

Error interrupted_by(const Interrupt& interrupt) {
  return {Errc::kInterrupted,
          fmt::format("interrupted{}", interrupt.signal() == SIGTERM ? " (SIGTERM)" : "")};
}

/// The outcome of one size.
struct Outcome {
  Json status = Json::object();  ///< as in `dlrun status --json`; empty if there is no run
  std::string why_not;           ///< the reason of a failure; empty after a success
};

Outcome outcome_of(const IndexEntry& run, const RunStatus& status) {
  return {status_json(run, status),
          exit_code_of_end(status) == kExitOk ? "" : end_text(run, status)};
}

Result<Outcome> run_here(const Cli& cli, const ScalingOptions& options, int size,
                         const Interrupt& interrupt) {
  Command command = command_of(cli, options, size, "run", "--json");
  command.is_unwanted = [&interrupt] { return interrupt.requested(); };
  const auto finished = run_command(command);
  if (!finished) return tl::unexpected(finished.error());
  if (interrupt.requested() || finished->exit_code == kExitInterrupted)
    return tl::unexpected(interrupted_by(interrupt));
  if (finished->exit_code == kExitUsage) return fail(Errc::kUsage, "{}", trim(finished->err));
  return Outcome{last_object(finished->out),
                 finished->exit_code == 0 ? "" : last_line(finished->err)};
}

/// Cancels the submitted run and does not wait for it to end.
void cancel(const Cli& cli, const IndexEntry& run) {
  Command command;
  command.env = cli.env;
  command.argv = {(cli.bin_dir / "dlrun").string(), "cancel", run.path.string()};
  const auto finished = run_command(command);
  if (finished && finished->exit_code == 0)
    return print_note(cli, fmt::format("{} is cancelled", run.id));
  print_warning(cli, fmt::format("`dlrun cancel {}` ends what was submitted: {}", run.id,
                                 finished ? last_line(finished->err) : finished.error().message));
}

Result<Outcome> run_through_slurm(const Cli& cli, const ScalingOptions& options, int size,
                                  const Interrupt& interrupt) {
  const auto sent = run_command(command_of(cli, options, size, "submit", "--json"));
  if (!sent) return tl::unexpected(sent.error());
  const Json told = last_object(sent->out);
  const IndexEntry run{json_read::text(told, "run"), json_read::text(told, "name"),
                       json_read::text(told, "path"), ""};
  const bool has_job = !json_read::text(told, "job").empty();
  if (interrupt.requested() || sent->exit_code == kExitInterrupted) {
    if (has_job) cancel(cli, run);
    return tl::unexpected(interrupted_by(interrupt));
  }
  if (sent->exit_code == kExitUsage) return fail(Errc::kUsage, "{}", trim(sent->err));
  if (sent->exit_code != 0 || !has_job) return Outcome{Json::object(), last_line(sent->err)};
  RunInspector inspector(cli.env, known_servers(cli));
  WatchOptions watch;
  watch.print_log = false;
  watch.remind = kRemindEvery;
  const auto status = watch_run(cli, inspector, run, watch, interrupt);
  if (status) return outcome_of(run, *status);
  if (status.error().code != Errc::kInterrupted) return tl::unexpected(status.error());
  cancel(cli, run);
  return tl::unexpected(interrupted_by(interrupt));
}

/// Tests every size before the first is submitted. Otherwise a size that Slurm would never start
/// would wait forever, and the sizes before it would be computed for nothing. Returns an exit code
/// after printing what was refused.
Result<int> try_sizes(const Cli& cli, const ScalingOptions& options, const std::vector<int>& sizes,
                      const Interrupt& interrupt) {
  int code = kExitOk;
  for (const int size : sizes) {
    const auto finished = run_command(command_of(cli, options, size, "submit", "--test-only"));
    if (!finished) return tl::unexpected(finished.error());
    if (interrupt.requested()) return tl::unexpected(interrupted_by(interrupt));
    if (finished->exit_code == kExitUsage) return fail(Errc::kUsage, "{}", trim(finished->err));
    if (finished->exit_code == kExitOk) continue;
    print_error(cli, fmt::format("{}: {}", size_text(options, size), last_line(finished->err)));
    if (code == kExitOk) code = finished->exit_code;
  }
  if (code != kExitOk) print_note(cli, "nothing was submitted");
  return code;
}

Result<> measure(const Cli& cli, const ScalingOptions& options, int size,
                 const Interrupt& interrupt, Measured& measured) {
  const auto outcome = options.local ? run_here(cli, options, size, interrupt)
                                     : run_through_slurm(cli, options, size, interrupt);
  if (!outcome) return tl::unexpected(outcome.error());
  const std::string run = json_read::text(outcome->status, "run");
  const auto rate = rate_of(outcome->status);
  const auto ranks = json_read::integer(outcome->status, "ranks");
  if (outcome->why_not.empty() && rate && ranks && *ranks > 0) {
    measured.figures.push_back({options.local ? 1 : size, static_cast<int>(*ranks), *rate, run});
    print_note(cli, fmt::format("{}: {:.0f} samples/s ({})", size_text(options, size), *rate, run));
    return {};
  }
  const std::string reason =
      outcome->why_not.empty() ? "the program reported no samples a second" : outcome->why_not;
  measured.left_out.push_back({size, reason});
  print_warning(cli, fmt::format("{} is left out: {}", size_text(options, size), reason));
  return {};
}

Json json_of(const ScalingOptions& options, const Measured& measured,
             const std::vector<ScalingModel>& models, const std::vector<ModelledFigure>& modelled) {
  const auto& figures = measured.figures;
  Json json;
  json["spec"] = options.spec.file;
  Json& results = json["results"] = Json::array();
  for (const ScalingFigure& f : figures) {
    results.push_back({{"nodes", f.nodes},
                       {"ranks", f.ranks},
                       {"samples_per_s", f.samples_per_s},
                       {"speed_up", speed_up(figures, f.samples_per_s)},
                       {"efficiency", efficiency(figures, f.ranks, f.samples_per_s)},
                       {"run", f.run}});
  }
  Json& missing = json["left_out"] = Json::array();
  for (const LeftOut& one : measured.left_out)
    missing.push_back({{options.local ? "ranks" : "nodes", one.size}, {"reason", one.reason}});
  Json& fits = json["models"] = Json::array();
  for (const ScalingModel& m : models)
    fits.push_back(
        {{"compute_s", m.compute_s}, {"latency_s", m.latency_s}, {"transfer_s", m.transfer_s}});
  Json& more = json["modelled"] = Json::array();
  for (const ModelledFigure& f : modelled) {
    more.push_back({{"ranks", f.ranks},
                    {"samples_per_s_low", f.low},
                    {"samples_per_s_high", f.high},
                    {"efficiency_low", efficiency(figures, f.ranks, f.low)},
                    {"efficiency_high", efficiency(figures, f.ranks, f.high)}});
  }
  return json;
}

}  // namespace

Result<int> bench_scaling(Cli& cli, const ScalingOptions& options) {
  if (options.spec.file.empty() || options.spec.file == "-")
    return fail(Errc::kUsage,
                "expected `dlrun bench scaling SPEC --nodes 1,2,4`: a file, since it is read for "
                "each size");
  if (options.nodes.has_value() == options.local.has_value())
    return fail(
        Errc::kUsage,
        "give --nodes 1,2,4 (through Slurm), or --local 1,2 (so many ranks on this machine)");
  const auto sizes = options.nodes ? parse_sizes(*options.nodes, "--nodes")
                                   : parse_sizes(*options.local, "--local");
  if (!sizes) return tl::unexpected(sizes.error());
  const auto prepared = prepare(cli, options.spec, options.local ? Target::kLocal : Target::kSlurm);
  if (!prepared) return tl::unexpected(prepared.error());
  const JobSpec& spec = prepared->loaded.spec;
  if (prepared->is_sweep())
    return fail(Errc::kUsage, "{}: is a sweep; what is measured is one experiment at several sizes",
                options.spec.file);
  if (spec.resources.ntasks) {
    return fail(
        Errc::kUsage,
        "{}: resources.ntasks gives every size the same ranks; give resources.tasks_per_node",
        options.spec.file);
  }
  const bool is_trainer = spec.launch.preset.value_or("trainer") == "trainer";
  const double batch =
      is_trainer ? static_cast<double>(spec.train.batch.value_or(kTrainersBatch)) : 1;

  const Interrupt interrupt;
  const auto failed = [&](const Error& error) -> Result<int> {
    if (error.code != Errc::kInterrupted || !interrupt.requested()) return tl::unexpected(error);
    print_note(cli, error.message);
    return kExitInterrupted;
  };
  if (!options.local) {
    const auto code = try_sizes(cli, options, *sizes, interrupt);
    if (!code) return failed(code.error());
    if (*code != kExitOk) return *code;
  }
  Measured measured;
  for (const int size : *sizes) {
    if (auto done = measure(cli, options, size, interrupt, measured); !done)
      return failed(done.error());
  }
  auto& figures = measured.figures;
  std::stable_sort(figures.begin(), figures.end(),
                   [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
  const auto models = fit_scaling(figures, batch);
  const auto modelled = continue_scaling(figures, models, batch);
  if (options.json) {
    print_json(json_of(options, measured, models, modelled));
  } else if (!figures.empty()) {
    print(cli, "{}\n{}",
          scaling_table(figures, models, modelled, is_trainer ? "step" : "sample each"),
          scaling_bars(figures, modelled));
    print_note(cli,
               "one run of each size; what is modelled is a ring all-reduce that nothing overlaps, "
               "fitted to them");
  }
  if (options.svg && !figures.empty()) {
    const std::string title = fmt::format("{}: samples a second", prepared->plan.name);
    DLRUN_TRY(
        write_file_atomic(cli.current_dir / *options.svg, scaling_svg(figures, modelled, title)));
  }
  return figures.empty() ? kExitRunFailed : kExitOk;
}

}  // namespace dlrun
