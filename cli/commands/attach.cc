// `dlrun attach`: starts a shell or a command beside the ranks of a running job.

#include "launcher/submit/attach.h"

#include <memory>

#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/quoting.h"
#include "launcher/plan/render.h"
#include "launcher/submit/places.h"

namespace dlrun {
namespace {

struct AttachOptions {
  std::string run, node;
  std::vector<std::string> command;
  bool dry_run = false;
};

Result<int> attach(Cli& cli, const AttachOptions& options) {
  DLRUN_TRY_ASSIGN(const auto run,
                   find_run_to_enter(cli, options.run, "attach to one of its points"));
  TerminalReporter reporter(cli);
  const bool has_terminal = is_input_terminal();
  if (!has_terminal && options.command.empty() && !options.dry_run) {
    return fail(
        Errc::kUsage,
        "a shell needs a terminal on standard input; without one give a command: -- COMMAND...");
  }
  DLRUN_TRY_ASSIGN(const auto status, RunInspector(cli.env, known_servers(cli)).inspect(run.path));
  DLRUN_TRY_ASSIGN(const auto target, target_with_cpus(cli.env, run, status, options.node));
  DLRUN_TRY_ASSIGN(const auto plan, plan_of_run(cli, reporter, run.path));
  if (options.dry_run) {
    const auto shown = render_attach(plan, target, options.command, "SCRIPT", has_terminal);
    print_document(shown.script);
    print_note(cli, fmt::format("would call {}", shell_quote_all(shown.argv)));
    return kExitOk;
  }
  DLRUN_TRY_ASSIGN(const auto end, run_beside(cli, reporter, run, status, plan, target,
                                              options.command, has_terminal));
  if (end.first_signal != 0) return kExitInterrupted;
  // A shell ends with the exit code of its last command, which says nothing about dlrun.
  return options.command.empty() ? kExitOk : end.exit_code;
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
  command.calls(attach, options, action);
}

}  // namespace dlrun
