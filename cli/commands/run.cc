// `dlrun run`: runs the job on this machine without Slurm. dlrun waits for lead, the agent that
// starts and watches the ranks. With --here, runs the job in the allocation of the shell.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/run_in_allocation.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/status_text.h"
#include "cli/terminal/terminal_reporter.h"
#include "launcher/submit/local_run.h"
#include "launcher/view/status_json.h"

namespace dlrun {
namespace {

struct RunOptions {
  SpecOptions spec;
  bool json = false, dry_run = false, here = false;
  std::optional<std::size_t> point;
};

void print_script(const Cli& cli, const LocalScript& planned, bool json) {
  if (json) return print_json(submission_json(planned));
  print_document(planned.script);
  print_note(cli, "nothing was written or started (--dry-run)");
}

Result<int> run(Cli& cli, const RunOptions& options) {
  if (options.here) {
    return run_in_allocation(cli, {options.spec,
                                   {std::nullopt, options.point, options.dry_run},
                                   {/*watch=*/true, options.json},
                                   /*is_foreground=*/true});
  }
  TerminalReporter reporter(cli);
  DLRUN_TRY_ASSIGN(const auto result,
                   run_on_this_machine(cli, reporter, options.spec,
                                       {options.point, options.dry_run, options.json}));
  if (const auto* planned = std::get_if<LocalScript>(&result)) {
    print_script(cli, *planned, options.json);
    return kExitOk;
  }
  const auto& done = std::get<LocalRun>(result);
  const RunDirectory& run = done.run;
  const IndexEntry entry{run.id, run.name, run.path, run.created};
  if (done.end.first_signal == 0) return print_end(cli, entry, done.status, options.json);
  if (options.json) print_json(status_json(entry, done.status));
  print_note(cli, fmt::format("interrupted; the run {} was ended", run.id));
  return kExitInterrupted;
}

}  // namespace

void add_run(CLI::App& root, Action& action) {
  auto options = std::make_shared<RunOptions>();
  Subcommand command(
      root, "run",
      "Run the experiment on this machine, as one node without Slurm, or in an allocation "
      "(--here)");
  add_spec_options(command, options->spec);
  command.flag("--here", options->here,
               "Run in the Slurm allocation of this shell, such as that of salloc");
  command.flag("--dry-run", options->dry_run, "Print the script; write and start nothing");
  command.option("--point", options->point, "Point of a sweep to run, counted from 0")
      .type_name("N")
      .non_negative();
  command.flag("--json", options->json,
               "Print a JSON object at the end, and the output of the ranks to standard error "
               "(with --here, do not print the output of the ranks)");
  command.calls(run, options, action);
}

}  // namespace dlrun
