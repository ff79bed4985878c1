// `dlrun interactive`: starts a shell or a command on the first node of a new allocation, in the
// job's environment and container.

#include <memory>

#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "launcher/submit/session.h"

namespace dlrun {
namespace {

struct InteractiveOptions {
  SpecOptions spec;
  SessionChoices choices;
  std::optional<std::size_t> point;
};

Result<int> interact(Cli& cli, const InteractiveOptions& options) {
  TerminalReporter reporter(cli);
  SessionChoices choices = options.choices;
  choices.has_terminal = is_input_terminal();
  DLRUN_TRY_ASSIGN(const auto result,
                   run_interactive(cli, reporter, options.spec, options.point, choices));
  if (const auto* end = std::get_if<ForegroundEnd>(&result))
    return exit_code_of_session(choices, *end);
  const auto& planned = std::get<PlannedSession>(result);
  print_planned_call(cli, planned.script, planned.argv);
  return kExitOk;
}

}  // namespace

void add_interactive(CLI::App& root, Action& action) {
  auto options = std::make_shared<InteractiveOptions>();
  Subcommand command(
      root, "interactive",
      "Open a shell, or run a command, on the first node of a new allocation, in the job's "
      "environment and container");
  add_spec_options(command, options->spec);
  command.option("COMMAND", options->choices.command,
                 "After --: the command to run instead of a shell; dlrun exits with its code");
  command
      .option("--point", options->point,
              "Point of a sweep whose environment to use, counted from 0")
      .type_name("N")
      .non_negative();
  command.flag("--dry-run", options->choices.is_dry_run,
               "Print what dlrun would do, and start nothing");
  command.calls(interact, options, action);
}

}  // namespace dlrun
