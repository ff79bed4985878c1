// `dlrun cancel`: cancels the jobs of a run through the interface that submitted them (Slurm's
// commands or slurmrestd). For a run on this machine, sends SIGTERM to lead.

#include <memory>

#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/status.h"
#include "launcher/submit/cancellation.h"

namespace dlrun {
namespace {

struct CancelOptions {
  std::vector<std::string> runs;
};

/// Cancels one run, and prints the cancelled jobs.
Result<> cancel_and_print(const Cli& cli, RunInspector& inspector, const IndexEntry& run) {
  DLRUN_TRY_ASSIGN(const auto cancelled, cancel_run(inspector, run));
  if (!cancelled.remark.empty()) print_note(cli, fmt::format("{}: {}", run.id, cancelled.remark));
  for (const std::string& job : cancelled.jobs)
    print(cli, "{}: cancelled {}\n", run.id, cancelled.is_local ? "on this machine" : "job " + job);
  if (cancelled.was_running)
    print_note(cli, fmt::format("{0}: its processes are being ended; `dlrun wait {0}` waits until "
                                "they have ended",
                                run.id));
  return cancelled.failure ? Result<>(tl::unexpected(*cancelled.failure)) : Result<>();
}

Result<int> cancel(Cli& cli, const CancelOptions& options) {
  RunInspector inspector(cli.env, known_servers(cli));
  int code = kExitOk;
  const auto report_failure = [&](const Error& error) {
    print_error(cli, error.message);
    if (code == kExitOk) code = exit_code_of(error.code);
  };
  for (const auto& text : options.runs) {
    const auto run = select_run(cli, text, IdStart::kWithDate);
    if (!run) {  // dlrun goes on and cancels the runs after this one
      report_failure(run.error());
      continue;
    }
    if (const auto own = require_own(run->id, run->path, "cancel it"); !own) {
      report_failure(own.error());
      continue;
    }
    if (const auto done = cancel_and_print(cli, inspector, *run); !done)
      report_failure(done.error());
  }
  return code;
}

}  // namespace

void add_cancel(CLI::App& root, Action& action) {
  auto options = std::make_shared<CancelOptions>();
  Subcommand command(root, "cancel", "Cancel runs");
  command.option("RUN", options->runs, kRunWithDateHelp).required();
  command.calls(cancel, options, action);
}

}  // namespace dlrun
