// dlrun cancel: scancel, or SIGTERM to the leader of a run on this machine.

#include <memory>

#include "cli/command_line.h"
#include "cli/output.h"
#include "cli/select.h"
#include "launcher/runs/status.h"

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
    return fail(status->is_last_known ? Errc::kUnavailable : Errc::kNotFound, "{}: {}", run.id, status->detail);
  auto done = inspector.executor_of(status->job).cancel(status->job);
  if (!done) return within(run.id, done.error());
  fmt::print("{}: cancelled {}\n", run.id,
             status->job.cluster == kLocalCluster ? "on this machine" : "job " + status->job.id);
  return kExitOk;
}

Result<int> cancel(Cli& cli, const Options& options) {
  std::vector<IndexEntry> runs;
  for (const auto& text : options.runs) {
    auto run = select_run(cli, text);
    if (!run) return tl::unexpected(run.error());
    runs.push_back(std::move(*run));
  }
  RunInspector inspector(cli.env);
  int code = kExitOk;
  for (const auto& run : runs) {
    const auto one = cancel_one(cli, inspector, run);
    if (one) continue;
    print_error(cli, one.error().message);
    code = exit_code_of(one.error().code);
  }
  return code;
}

}  // namespace

void add_cancel(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(root, "cancel", "End runs");
  command.option("RUN", options->runs, kRunHelp).required();
  command.on_call([options, &action] { action = [options](Cli& cli) { return cancel(cli, *options); }; });
}

}  // namespace dlrun
