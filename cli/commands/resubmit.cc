// `dlrun resubmit`: submits the script of a run again as a new run; for a sweep, submits the points
// that Slurm has not accepted.

#include <memory>

#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/spec_options.h"
#include "cli/submission_output.h"
#include "cli/terminal/terminal_reporter.h"
#include "launcher/submit/submitting.h"

namespace dlrun {
namespace {

struct ResubmitOptions {
  std::string run;
  OutputOptions output;
  bool force = false;
};

Result<int> resubmit_run(Cli& cli, const ResubmitOptions& options) {
  TerminalReporter reporter(cli);
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(auto submission_token, take_submission_token(cli.env));
  DLRUN_TRY_ASSIGN(const auto submitted,
                   resubmit(cli, reporter, inspector, options.run, options.force,
                            submission_token ? &*submission_token : nullptr));
  submission_token.reset();  // releases the lock of the token, because --watch may take days
  return print_and_watch(cli, inspector, submitted, options.output);
}

}  // namespace

void add_resubmit(CLI::App& root, Action& action) {
  auto options = std::make_shared<ResubmitOptions>();
  Subcommand command(root, "resubmit",
                     "Submit the script of a run again as a new run, which starts from the "
                     "beginning; for a sweep, submit the points that Slurm has not accepted");
  command.option("RUN", options->run, kRunHelp).required();
  command.flag("--watch", options->output.watch,
               "Follow the output until the job ends; exit with 0, or with 5 if the run failed");
  command.flag("--force", options->force, "Submit even if the run has not ended");
  command.flag("--json", options->output.json, "Print a JSON object");
  command.calls(resubmit_run, options, action);
}

}  // namespace dlrun
