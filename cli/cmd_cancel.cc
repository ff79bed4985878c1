// `dlrun cancel`: calls scancel, or sends SIGTERM to the leader of a run on this machine.

#include <map>
#include <memory>

#include "cli/command_line.h"
#include "cli/prepare.h"
#include "cli/select.h"
#include "cli/terminal/print.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/status.h"
#include "launcher/runs/sweep.h"

namespace dlrun {
namespace {

struct Options {
  std::vector<std::string> runs;
};

Result<int> cancel_one(Cli& cli, RunInspector& inspector, const IndexEntry& run) {
  const auto status = inspector.inspect(run.path);
  if (!status) return tl::unexpected(status.error());
  if (is_final(status->state) && status->state != RunState::kUnknown) {
    print_note(cli, fmt::format("{}: nothing to cancel, it is {}", run.id, word(status->state)));
    return kExitOk;
  }
  if (status->job.id.empty())
    return fail(status->is_last_known ? Errc::kUnavailable : Errc::kNotFound, "{}: {}", run.id,
                status->detail);
  auto done = inspector.executor_of(status->facts).cancel(status->job, token_of(status->facts));
  if (!done) return within(run.id, done.error());
  if (status->job.cluster != kLocalCluster) DLRUN_TRY(mark_cancelled(run.path));
  print(cli, "{}: cancelled {}\n", run.id,
        status->job.cluster == kLocalCluster ? "on this machine" : "job " + status->job.id);
  return kExitOk;
}

/// Cancels every array of the sweep as a whole, and the jobs of points that were submitted again.
Result<int> cancel_sweep(Cli& cli, RunInspector& inspector, const IndexEntry& run) {
  const auto sweep = read_sweep(run.path);
  if (!sweep) return tl::unexpected(sweep.error());
  std::vector<std::filesystem::path> points;
  for (const auto& point : sweep->points)
    points.push_back(current_run_of(point_path(run.path, point)));
  const auto states = inspector.inspect_all(points);
  // One entry per array, for all its unfinished points.
  std::map<std::string, const RunStatus*> jobs;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!states[i] || is_final(states[i]->state) || states[i]->job.id.empty() ||
        states[i]->facts.foreign)
      continue;
    const std::string& id = states[i]->job.id;
    jobs.try_emplace(id.substr(0, id.find('_')), &*states[i]);
  }
  if (jobs.empty()) {
    print_note(cli, fmt::format("{}: nothing to cancel, {}", run.id, sum_up_points(states).detail));
    return kExitOk;
  }
  for (std::size_t array = 0; array < sweep->arrays; ++array)
    DLRUN_TRY(require_own(run.id, array_path(run.path, array), "cancelled"));
  for (std::size_t array = 0; array < sweep->arrays; ++array)
    DLRUN_TRY(mark_cancelled(array_path(run.path, array)));
  for (const auto& [id, status] : jobs) {
    auto done = inspector.executor_of(status->facts)
                    .cancel({status->job.cluster, id}, token_of(status->facts));
    if (!done) return within(run.id, done.error());
    print(cli, "{}: cancelled job {}\n", run.id, id);
  }
  return kExitOk;
}

Result<int> cancel(Cli& cli, const Options& options) {
  RunInspector inspector(cli.env, known_servers(cli));
  int code = kExitOk;
  const auto refuse = [&](const Error& error) {
    print_error(cli, error.message);
    if (code == kExitOk) code = exit_code_of(error.code);
  };
  for (const auto& text : options.runs) {
    const auto run = select_run(cli, text);
    if (!run) {  // the remaining runs are cancelled all the same
      refuse(run.error());
      continue;
    }
    if (const auto own = require_own(run->id, run->path, "cancelled"); !own) {
      refuse(own.error());
      continue;
    }
    const auto one =
        is_sweep(run->path) ? cancel_sweep(cli, inspector, *run) : cancel_one(cli, inspector, *run);
    if (!one) refuse(one.error());
  }
  return code;
}

}  // namespace

void add_cancel(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(root, "cancel", "Cancel runs");
  command.option("RUN", options->runs, kRunHelp).required();
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return cancel(cli, *options); }; });
}

}  // namespace dlrun
