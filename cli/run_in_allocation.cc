#include "cli/run_in_allocation.h"

#include <nlohmann/json.hpp>

#include "cli/follow.h"
#include "cli/terminal/print.h"
#include "cli/terminal/status_text.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/interrupt.h"
#include "launcher/submit/cancellation.h"
#include "launcher/submit/submission_text.h"
#include "launcher/submit/submit_spec.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {
namespace {

/// Follows the run to its end. If request.is_foreground, an interruption cancels the run; otherwise
/// the interruption only ends the watching.
Result<int> follow_to_the_end(const Cli& cli, RunInspector& inspector, const IndexEntry& run,
                              const AllocationRunRequest& request) {
  WatchOptions watch;
  watch.passes_log = !request.output.json;
  auto status = [&] {
    const Interrupt interrupt;
    return follow_run(cli, inspector, run, watch, interrupt);
  }();
  const bool is_interrupted = !status && status.error().code == Errc::kInterrupted;
  if (is_interrupted && !request.is_foreground) {
    print_note(cli, fmt::format("stopped watching; {0} continues. `dlrun logs -f {0}` follows it "
                                "again, `dlrun cancel {0}` ends it",
                                run.id));
    return kExitInterrupted;
  }
  if (is_interrupted) {
    print_note(cli, fmt::format("ending {}; another Ctrl-C stops waiting for its end", run.id));
    DLRUN_TRY(cancel_run(inspector, run));
    watch.tail = 0;
    const Interrupt interrupt;
    status = follow_run(cli, inspector, run, watch, interrupt);
  }
  if (!status) return tl::unexpected(status.error());
  const int code = print_end(cli, run, *status, request.output.json);
  return is_interrupted ? kExitInterrupted : code;
}

void print_script(const Cli& cli, const AllocationScript& script, bool json) {
  if (json) return print_json(submission_json(script));
  print_document(script.script);
  print_note(cli, "nothing was written or started (--dry-run)");
}

/// Prints the id, the job and the files of the run that has started; with --json, the JSON object
/// instead. Prints nothing in these cases:
/// - the run is in the foreground;
/// - --watch follows the run, and --json is not given.
void print_start(const Cli& cli, const StartedRun& started, const AllocationRunRequest& request) {
  if (request.is_foreground) return;
  if (request.output.json) return print_json(submission_json(started));
  if (request.output.watch) return;
  const RunDirectory& run = started.run;
  print(cli, "{} {} in job {}\n", styled(Style::kGreen, "started"), styled(Style::kBold, run.id),
        started.job);
  print(cli, labelled(lines_about(run), kRunLabelWidth));
}

}  // namespace

Result<int> run_in_allocation(Cli& cli, const AllocationRunRequest& request) {
  Provenance provenance = provenance_of(cli, request.spec.file);
  TerminalReporter reporter(cli);
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(const auto result, start_in_allocation(cli, reporter, inspector, request.spec,
                                                          request.choices, provenance));
  if (const auto* script = std::get_if<AllocationScript>(&result)) {
    print_script(cli, *script, request.output.json);
    return kExitOk;
  }
  const auto& started = std::get<StartedRun>(result);
  const RunDirectory& run = started.run;
  DLRUN_TRY(print_or_fail(
      [&] { print_start(cli, started, request); },
      fmt::format("the run {} has started; `dlrun status {}` shows it", run.id, run.handle())));
  if (!request.output.watch) return kExitOk;
  return follow_to_the_end(cli, inspector, {run.id, run.name, run.path, run.created}, request);
}

}  // namespace dlrun
