// `dlrun wait`: waits until the runs have ended.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/follow.h"
#include "cli/run_argument.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "launcher/runs/notice_relay.h"
#include "launcher/view/status_json.h"
#include "launcher/view/waiting_lines.h"

namespace dlrun {
namespace {

struct WaitOptions {
  std::vector<std::string> runs;
  bool json = false;
};

Result<int> wait(Cli& cli, const WaitOptions& options) {
  DLRUN_TRY_ASSIGN(const auto runs, select_runs(cli, runs_or_newest(options.runs)));
  RunInspector inspector(cli.env, known_servers(cli));
  const Interrupt interrupt;
  WatchOptions silent;
  silent.passes_log = false;
  int exit_code = kExitOk;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  // Waiting may take days, so all runs are checked before the first wait.
  for (const auto& run : runs) DLRUN_TRY(check_can_wait_for(run));
  for (const auto& run : runs) {
    DLRUN_TRY_ASSIGN(const auto status, follow_run(cli, inspector, run, silent, interrupt));
    const int run_code = exit_code_of_state(status);
    if (exit_code == kExitOk) exit_code = run_code;
    if (options.json) {
      json.push_back(status_json(run, status));
    } else if (run_code == kExitOk) {
      print(cli, "{}\n", end_text_with_runs(cli.env, run, status));
    } else {
      print_error(cli, end_text_with_runs(cli.env, run, status));
    }
  }
  if (options.json) print_json(json);
  relay_notices_in_background(cli.env, runs);
  return exit_code;
}

}  // namespace

void add_wait(CLI::App& root, Action& action) {
  auto options = std::make_shared<WaitOptions>();
  Subcommand command(root, "wait",
                     "Wait until runs have ended; exit with 0, or with the first other code of a "
                     "run, such as 5 (failed)");
  command.option("RUN", options->runs, kOptionalRunHelp);
  command.flag("--json", options->json, "Print a JSON array of the states of the runs");
  command.calls(wait, options, action);
}

}  // namespace dlrun
