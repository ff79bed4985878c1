#include "cli/allocation_command.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "cli/follow.h"
#include "cli/terminal/print.h"
#include "cli/terminal/status_text.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/interrupt.h"
#include "launcher/plan/render.h"
#include "launcher/runs/provenance.h"
#include "launcher/runs/status.h"
#include "launcher/submit/allocation_run.h"
#include "launcher/submit/cancellation.h"
#include "launcher/submit/checks.h"
#include "launcher/submit/job.h"
#include "launcher/submit/places.h"

namespace dlrun {
namespace {

/// Follows the run to its end. An interruption ends the run if it is in the foreground.
Result<int> follow_to_the_end(const Cli& cli, RunInspector& inspector, const IndexEntry& run,
                              const AllocationRun& options) {
  WatchOptions watch;
  watch.print_log = !options.json;
  auto status = [&] {
    const Interrupt interrupt;
    return follow_run(cli, inspector, run, watch, interrupt);
  }();
  const bool is_interrupted = !status && status.error().code == Errc::kInterrupted;
  if (is_interrupted && !options.is_foreground) {
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
  if (options.json) print_json(status_json(run, *status));
  const int code = print_end(cli, run, *status);
  return is_interrupted ? kExitInterrupted : code;
}

/// Prints the run that has started.
void print_started(const Cli& cli, const RunDirectory& run, const AllocationRun& options) {
  if (options.json && !options.watch) {
    nlohmann::ordered_json out;
    out["run"] = run.id;
    out["name"] = run.name;
    out["path"] = run.path.string();
    out["allocation"] = options.job;
    print_json(out);
  } else if (!options.watch) {
    print(cli, "{} {} in job {}\n", styled(Style::kGreen, "started"), styled(Style::kBold, run.id),
          options.job);
    print(cli, "  directory  {0}\n  follow     dlrun logs -f {1}\n  state      dlrun status {1}\n",
          run.path.string(), run.handle());
  }
}

}  // namespace

Result<int> run_in_allocation(Cli& cli, const AllocationRun& options) {
  TerminalReporter reporter(cli);
  Provenance provenance(folder_of(cli, options.spec.file), cli.env, cli.argv, cli.tools.hash);
  SpecOptions spec = options.spec;
  spec.is_borrowed = true;
  DLRUN_TRY_ASSIGN(auto experiment, prepare(cli, reporter, spec, Target::kSlurm));
  if (options.point) {
    DLRUN_TRY_ASSIGN(experiment, prepare_point(reporter, std::move(experiment), *options.point));
  }
  DLRUN_TRY_ASSIGN(auto script, render_script(experiment.plan));
  if (options.dry_run && options.json) {
    print_json({{"run", nullptr}, {"allocation", options.job}, {"script", script}});
    return kExitOk;
  }
  if (options.dry_run) {
    print_document(script);
    print_note(cli, "nothing was written or started (--dry-run)");
    return kExitOk;
  }
  DLRUN_TRY_ASSIGN(const auto allocation, find_allocation(cli, options.job));
  DLRUN_TRY(check_fit(experiment, allocation));
  RunInspector inspector(cli.env, known_servers(cli));
  Job job = job_of(std::move(experiment), std::move(script));
  DLRUN_TRY(check_job(cli, reporter, inspector, job, nullptr, CheckStage::kLocalRun));
  DLRUN_TRY_ASSIGN(const auto run, start_in_allocation(cli, reporter, job, allocation, provenance));
  DLRUN_TRY(print_or_fail(
      [&] { print_started(cli, run, options); },
      fmt::format("the run {} has started; `dlrun status {}` shows it", run.id, run.handle())));
  if (!options.watch) return kExitOk;
  return follow_to_the_end(cli, inspector, {run.id, run.name, run.path, run.created}, options);
}

}  // namespace dlrun
