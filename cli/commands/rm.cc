// `dlrun rm`: deletes runs that have ended.

#include <memory>

#include "cli/ask_and_clean_up.h"
#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"

namespace dlrun {
namespace {

struct RmOptions {
  std::vector<std::string> runs;
  CleanupOptions cleanup;
};

Result<int> remove_runs(Cli& cli, const RmOptions& options) {
  int exit_code = kExitOk;
  const auto report_failure = [&](const Error& error) {
    print_error(cli, error.message);
    if (exit_code == kExitOk) exit_code = exit_code_of(error.code);
  };
  std::vector<IndexEntry> runs;
  for (const auto& text : options.runs) {
    auto run = select_run(cli, text, IdStart::kWithDate);
    if (run) {
      runs.push_back(std::move(*run));
    } else {
      report_failure(run.error());
    }
  }
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(const auto plan, plan_removal(cli.env, inspector, runs));
  for (const KeptRun& kept : plan.kept) report_failure(kept.why);
  DLRUN_TRY_ASSIGN(const int cleanup_code, ask_and_clean_up(cli, inspector, plan, options.cleanup));
  return exit_code != kExitOk ? exit_code : cleanup_code;
}

}  // namespace

void add_rm(CLI::App& root, Action& action) {
  auto options = std::make_shared<RmOptions>();
  Subcommand command(root, "rm",
                     "Delete runs that have ended, with their checkpoints; asks on a terminal");
  command.option("RUN", options->runs, kRunWithDateHelp).required();
  add_cleanup_options(command, options->cleanup);
  command.calls(remove_runs, options, action);
}

}  // namespace dlrun
