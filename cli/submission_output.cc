#include "cli/submission_output.h"

#include <nlohmann/json.hpp>

#include "cli/follow.h"
#include "cli/terminal/print.h"
#include "cli/terminal/status_text.h"
#include "common/interrupt.h"
#include "launcher/runs/notice_relay.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/submit/submission_text.h"
#include "launcher/submit/submit_spec.h"

namespace dlrun {
namespace {

void print_accepted(const Cli& cli, const Submitted& submitted) {
  print(cli, "{} {} {}\n", styled(Style::kGreen, "submitted"),
        styled(Style::kBold, submitted.run.id), jobs_text(submitted));
  flush_output();  // before dlrun asks Slurm again, which may take time
  const auto facts = facts_about(cli.env, submitted);
  print(cli, labelled(facts.lines, kRunLabelWidth));
  flush_output();
  if (!facts.warning.empty()) print_warning(cli, facts.warning);
}

/// Follows a submitted job to its end and prints how it ended. Returns the exit code. Prints no log
/// for a sweep, because its points have separate logs, and none with --json.
Result<int> watch_to_the_end(const Cli& cli, RunInspector& inspector, const IndexEntry& run,
                             const std::string& job, bool json) {
  const Interrupt interrupt;
  WatchOptions watch;
  watch.passes_log = !json && !is_sweep(run.path);
  const auto status = follow_run(cli, inspector, run, watch, interrupt);
  if (!status && status.error().code == Errc::kInterrupted) {
    print_note(cli, stopped_watching_text(run, job));
    return kExitInterrupted;
  }
  if (!status) return tl::unexpected(status.error());
  relay_notices_in_background(cli.env, {run});
  return print_end(cli, run, *status, json);
}

}  // namespace

Result<int> print_and_watch(const Cli& cli, RunInspector& inspector, const Submitted& submitted,
                            const OutputOptions& output) {
  const RunDirectory& run = submitted.run;
  const auto printed = print_or_fail(
      [&] {
        if (output.json) {
          print_json(submission_json(cli.env, submitted));
        } else {
          print_accepted(cli, submitted);
        }
      },
      queued_text(submitted));
  if (submitted.failure) return tl::unexpected(*submitted.failure);
  DLRUN_TRY(printed);
  if (submitted.is_interrupted) {
    print_note(cli, interrupted_text(submitted));
    return kExitInterrupted;
  }
  if (!output.watch) return kExitOk;
  return watch_to_the_end(cli, inspector, {run.id, run.name, run.path, run.created},
                          submitted.submissions.front().job.id, output.json);
}

}  // namespace dlrun
