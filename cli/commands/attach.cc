// `dlrun attach`: starts a shell or a command beside the ranks of a running job.

#include "launcher/submit/attach.h"

#include <memory>

#include "cli/command_line.h"
#include "cli/run_plan.h"
#include "cli/select.h"
#include "cli/terminal/print.h"
#include "common/files.h"
#include "common/quoting.h"
#include "launcher/plan/render.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/status.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/runs/tools.h"
#include "launcher/submit/places.h"
#include "launcher/submit/session_folder.h"

namespace dlrun {
namespace {

struct AttachOptions {
  std::string run, node;
  std::vector<std::string> command;
  bool dry_run = false;
};

/// Starts the shell or the command, and waits for its end.
Result<int> open_session(const Cli& cli, const IndexEntry& run, const RunStatus& status,
                         const LaunchPlan& plan, const AttachTarget& target,
                         const AttachOptions& options) {
  const auto runs_dir = run.path.parent_path();
  if (const auto warning = warning_about_place(runs_dir)) print_warning(cli, *warning);
  DLRUN_TRY_ASSIGN(const auto folder, SessionFolder::make(runs_dir));
  const auto script = folder.path() / "session.sh";
  const auto session =
      render_attach(plan, target, options.command, script.string(), is_input_terminal());
  DLRUN_TRY(write_file_atomic(script, with_begun_mark(session.script, folder), 0700));
  DLRUN_TRY_ASSIGN(auto child,
                   start_session(cli.env, session, attach_folder(run, status, plan.folder)));
  DLRUN_TRY_ASSIGN(const auto end, child.wait());
  if (end.first_signal != 0) return kExitInterrupted;
  if (!has_begun(folder))
    return fail(Errc::kRefused,
                "{}: Slurm started no shell beside the run (srun ended with code {})", run.id,
                end.exit_code);
  // A shell ends with the exit code of its last command, which says nothing about dlrun.
  return options.command.empty() ? kExitOk : end.exit_code;
}

Result<int> attach(Cli& cli, const AttachOptions& options) {
  DLRUN_TRY_ASSIGN(const auto run, select_run(cli, options.run));
  DLRUN_TRY(require_own(run.id, run.path, "entered"));
  if (is_sweep(run.path)) {
    return fail(Errc::kUsage, "{0}: is a sweep; attach to one of its points, such as {0}/0",
                run.id);
  }
  const bool has_terminal = is_input_terminal();
  if (!has_terminal && options.command.empty() && !options.dry_run) {
    return fail(
        Errc::kUsage,
        "a shell needs a terminal on standard input; without one give a command: -- COMMAND...");
  }
  DLRUN_TRY_ASSIGN(const auto status, RunInspector(cli.env, known_servers(cli)).inspect(run.path));
  DLRUN_TRY_ASSIGN(const auto target, attach_target(cli.env, run, status, options.node));
  DLRUN_TRY_ASSIGN(const auto plan, plan_of_run(cli, run.path));
  if (options.dry_run) {
    const auto shown = render_attach(plan, target, options.command, "SCRIPT", has_terminal);
    print_document(shown.script);
    print_note(cli, fmt::format("would call {}", shell_quote_all(shown.argv)));
    return kExitOk;
  }
  return open_session(cli, run, status, plan, target, options);
}

}  // namespace

void add_attach(CLI::App& root, Action& action) {
  auto options = std::make_shared<AttachOptions>();
  Subcommand command(root, "attach",
                     "Open a shell, or run a command, beside the ranks of a running job, in the "
                     "job's environment and container");
  command.option("RUN", options->run, kRunHelp).required();
  command.option("--node", options->node, "Node of the job to use (default: the first node)")
      .type_name("NAME");
  command.option("COMMAND", options->command,
                 "After --: the command to run instead of a shell; dlrun exits with its code");
  command.flag("--dry-run", options->dry_run, "Print what dlrun would do, and start nothing");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return attach(cli, *options); }; });
}

}  // namespace dlrun
