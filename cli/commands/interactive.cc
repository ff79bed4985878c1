// `dlrun interactive`: starts a shell or a command on the first node of a new allocation, in the
// job's environment and container.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/quoting.h"
#include "launcher/plan/render.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/submit/checks.h"
#include "launcher/submit/session.h"

namespace dlrun {
namespace {

struct InteractiveOptions {
  SpecOptions spec;
  std::vector<std::string> command;
  bool dry_run = false;
  std::optional<std::size_t> point;
};

Result<int> interact(Cli& cli, const InteractiveOptions& options) {
  TerminalReporter reporter(cli);
  DLRUN_TRY_ASSIGN(auto prepared,
                   prepare_chosen(cli, reporter, options.spec, Target::kSlurm, options.point));
  if (prepared.is_sweep()) {
    return fail(Errc::kUsage, "{}: is a sweep of {} points; choose one with --point N",
                prepared.loaded.file, count_points(prepared.loaded.spec.sweep));
  }
  DLRUN_TRY_ASSIGN(auto script, render_script(prepared.plan));
  Job job = job_of(std::move(prepared), std::move(script));
  RunInspector inspector(cli.env, known_servers(cli));
  const bool has_terminal = is_input_terminal();
  DLRUN_TRY(check_job(cli, reporter, inspector, job, nullptr, CheckStage::kSessionPlan));
  if (options.dry_run) {
    const auto shown =
        render_interactive(job.experiment->plan, options.command, "SCRIPT", has_terminal);
    print_document(shown.script);
    print_note(cli, fmt::format("would call {}", shell_quote_all(shown.argv)));
    return kExitOk;
  }
  if (!has_terminal && options.command.empty()) {
    return fail(
        Errc::kUsage,
        "a shell needs a terminal on standard input; without one give a command: -- COMMAND...");
  }
  DLRUN_TRY(check_job(cli, reporter, inspector, job, nullptr, CheckStage::kSession));
  DLRUN_TRY_ASSIGN(const auto session,
                   run_session(cli, reporter, job, options.command, has_terminal));
  const ForegroundEnd& end = session.end;
  if (session.has_begun) {
    if (end.first_signal != 0) return kExitInterrupted;
    // A shell ends with the exit code of its last command, which says nothing about dlrun.
    return options.command.empty() ? kExitOk : end.exit_code;
  }
  if (end.first_signal != 0 || end.signal != 0)
    return fail(Errc::kInterrupted,
                "interrupted before Slurm granted the allocation; nothing is queued");
  if (end.exit_code == 0) return kExitOk;
  return tl::unexpected(no_allocation(cli, job, session));
}

}  // namespace

void add_interactive(CLI::App& root, Action& action) {
  auto options = std::make_shared<InteractiveOptions>();
  Subcommand command(
      root, "interactive",
      "Open a shell, or run a command, on the first node of an allocation, in the job's "
      "environment and container");
  add_spec_options(command, options->spec);
  command.option("COMMAND", options->command,
                 "After --: the command to run instead of a shell; dlrun exits with its code");
  command
      .option("--point", options->point,
              "Point of a sweep whose environment to use, counted from 0")
      .type_name("N")
      .non_negative();
  command.flag("--dry-run", options->dry_run, "Print what dlrun would do, and start nothing");
  command.calls(interact, options, action);
}

}  // namespace dlrun
