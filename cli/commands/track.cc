// `dlrun track sync`: sends the record of a run to its MLflow server (track.mlflow).

#include <memory>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/terminal/print.h"
#include "launcher/runs/tracked_record.h"

namespace dlrun {
namespace {

struct TrackOptions {
  std::string verb, run;
};

Result<int> track(Cli& cli, const TrackOptions& options) {
  if (options.verb != "sync")
    return fail(Errc::kUsage, "expected `dlrun track sync RUN`, not `dlrun track {}`",
                options.verb);
  DLRUN_TRY_ASSIGN(const auto run, select_run(cli, options.run));
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(const auto tracked, sync_records(cli.env, inspector, run));
  bool is_complete = true;
  for (const RunSyncReport& one : tracked) {
    if (one.report.is_complete) {
      print(cli, "{}: the server has the whole record; {} values were sent now (MLflow run {})\n",
            one.run_id, one.report.values_sent, one.report.mlflow_run_id);
    } else {
      is_complete = false;
      print_error(cli, fmt::format("{}: track.mlflow: {}; {} values were sent now", one.run_id,
                                   one.report.problem, one.report.values_sent));
    }
  }
  return is_complete ? kExitOk : kExitFault;
}

}  // namespace

void add_track(CLI::App& root, Action& action) {
  auto options = std::make_shared<TrackOptions>();
  Subcommand command(root, "track", "Send the record of a run to its MLflow server");
  command.option("VERB", options->verb, "sync").required();
  command.option("RUN", options->run, "Run, or sweep, whose record is sent").required();
  command.calls(track, options, action);
}

}  // namespace dlrun
