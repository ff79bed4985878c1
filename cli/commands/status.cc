// `dlrun status`: shows the state of a run.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/status_text.h"
#include "launcher/view/status_json.h"
#include "launcher/view/waiting_lines.h"

namespace dlrun {
namespace {

struct StatusOptions {
  std::string run = kNewestRun;
  bool json = false;
};

Result<int> show(Cli& cli, const StatusOptions& options) {
  DLRUN_TRY_ASSIGN(const auto run, select_run(cli, options.run));
  DLRUN_TRY_ASSIGN(const auto status, RunInspector(cli.env, known_servers(cli)).inspect(run.path));
  if (options.json) {
    print_json(status_json(run, status));
  } else {
    print(cli, status_text(run, status, waiting_lines(cli.env, status)));
  }
  return is_unreachable(status) ? kExitUnavailable : kExitOk;
}

}  // namespace

void add_status(CLI::App& root, Action& action) {
  auto options = std::make_shared<StatusOptions>();
  Subcommand command(
      root, "status",
      "Show the state, progress and results of a run, and the rank that failed first");
  command.option("RUN", options->run, kOptionalRunHelp);
  command.flag("--json", options->json, "Print a JSON object");
  command.calls(show, options, action);
}

}  // namespace dlrun
