// `dlrun attach`: starts a shell or a command beside the ranks of a running job.

#include "launcher/submit/attach.h"

#include <memory>

#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"

namespace dlrun {
namespace {

struct AttachOptions {
  std::string run, node;
  SessionChoices choices;
};

Result<int> attach(Cli& cli, const AttachOptions& options) {
  TerminalReporter reporter(cli);
  SessionChoices choices = options.choices;
  choices.has_terminal = is_input_terminal();
  DLRUN_TRY_ASSIGN(const auto result, attach_to(cli, reporter, options.run, options.node, choices));
  if (const auto* end = std::get_if<ForegroundEnd>(&result))
    return exit_code_of_session(choices, *end);
  const auto& planned = std::get<PlannedSession>(result);
  print_planned_call(cli, planned.script, planned.argv);
  return kExitOk;
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
  command.option("COMMAND", options->choices.command,
                 "After --: the command to run instead of a shell; dlrun exits with its code");
  command.flag("--dry-run", options->choices.is_dry_run,
               "Print what dlrun would do, and start nothing");
  command.calls(attach, options, action);
}

}  // namespace dlrun
