#include "cli/submission_output.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "cli/follow.h"
#include "cli/terminal/print.h"
#include "cli/terminal/state_and_cost.h"
#include "cli/terminal/status_text.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/runs/notice_relay.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/submit/submit_spec.h"
#include "launcher/view/start_and_limits.h"

namespace dlrun {
namespace {

/// Returns the limits of the job's partition as text, or "" if they are unknown. Reads the
/// partition's name from the script, because the user may have edited it.
std::string partition_limits(const Job& job) {
  if (!job.experiment || job.source == Job::Source::kRun) return "";
  return partition_text(job.experiment->loaded.site,
                        sbatch_value(job.script, "--partition", "-p").value_or(""));
}

/// Names the follow-up jobs of a run with retry.chain; "" if the run has none.
std::string follow_ups_text(const Submitted& submitted) {
  std::vector<std::string> ids;
  for (const Submission& one : submitted.follow_ups) ids.push_back(one.job.id);
  if (ids.empty()) return {};
  return fmt::format("job{} {} continue{} the run when it reaches its time limit or is preempted",
                     ids.size() == 1 ? "" : "s", join(ids, ", "), ids.size() == 1 ? "s" : "");
}

void print_job(const Cli& cli, const Submitted& submitted) {
  const RunDirectory& run = submitted.run;
  const Submission& submission = submitted.submissions.front();
  print(cli, "{} {} as job {}{}\n", styled(Style::kGreen, "submitted"),
        styled(Style::kBold, run.id), submission.job.id,
        submission.job.cluster.empty() ? "" : " on " + submission.job.cluster);
  if (const auto chain = follow_ups_text(submitted); !chain.empty())
    print(cli, "  chain      {}\n", chain);
  flush_output();  // before dlrun asks Slurm again, which may take time
  const auto report = glance(cli.env, submission);
  if (report) print(cli, "  start      {}\n", start_text(*report));
  if (const auto hours = cost_text(submitted.job.requests.requested); !hours.empty())
    print(cli, "  cost       {}\n", hours);
  if (const auto limits = partition_limits(submitted.job); !limits.empty())
    print(cli, "  partition  {}\n", limits);
  print(cli, "  directory  {}\n", run.path.string());
  print(cli, "  follow     dlrun logs -f {0}\n  state      dlrun status {0}\n", run.handle());
  flush_output();
  if (const auto never = report ? cannot_start_text(*report) : ""; !never.empty())
    print_warning(cli, fmt::format("{}, `dlrun cancel {}` cancels it", never, run.handle()));
}

void print_sweep(const Cli& cli, const Submitted& submitted) {
  const RunDirectory& run = submitted.run;
  const auto& points = *submitted.points;
  std::vector<std::string> jobs = jobs_of(submitted);
  const std::size_t all = jobs.size();
  constexpr std::size_t kShown = 8;
  if (all > kShown) jobs.resize(kShown);
  print(cli, "{} {} as job{} {}{}\n", styled(Style::kGreen, "submitted"),
        styled(Style::kBold, run.id), all == 1 ? "" : "s", join(jobs, " "),
        all > kShown ? fmt::format(" ... ({} arrays)", all) : "");
  flush_output();  // before dlrun asks Slurm again, which may take time
  const auto report = glance(cli.env, submitted.submissions.front());
  if (report) print(cli, "  start      {}\n", start_text(*report));
  const std::string size =
      points.plan ? points_and_cost_text(*points.plan)
      : points.sent == points.all
          ? fmt::format("all {} points", points.all)
          : fmt::format("{} of {} points, which Slurm had not accepted", points.sent, points.all);
  print(cli, "  sweep      {}\n  directory  {}\n", size, run.path.string());
  const std::string point =
      run.is_indexed ? run.id + "/0" : (array_path(run.path, 0) / "0").string();
  print(cli,
        "  points     dlrun sweep {0}\n  state      dlrun status {0}\n  one point  dlrun logs -f "
        "{1}\n",
        run.handle(), point);
  flush_output();
  if (const auto never = report ? cannot_start_text(*report) : ""; !never.empty())
    print_warning(cli, fmt::format("{}, `dlrun cancel {}` cancels it", never, run.handle()));
}

/// Returns the error message if standard output fails after the submission.
std::string queued_text(const Submitted& submitted) {
  const RunDirectory& run = submitted.run;
  if (submitted.points) {
    const auto jobs = jobs_of(submitted);
    return fmt::format("the sweep {} is submitted, as job{} {}; `dlrun status {}` shows it", run.id,
                       jobs.size() == 1 ? "" : "s", join(jobs, " "), run.handle());
  }
  const JobId& queued = submitted.submissions.front().job;
  return fmt::format("the run {} is submitted, as job {}{}; `dlrun status {}` shows it", run.id,
                     queued.id, queued.cluster.empty() ? "" : " on " + queued.cluster,
                     run.handle());
}

/// Follows a submitted job to its end and prints how it ended. Returns the exit code. Prints no log
/// for a sweep, whose points have separate logs.
Result<int> watch_to_the_end(const Cli& cli, RunInspector& inspector, const IndexEntry& run,
                             const std::string& job, bool json) {
  const Interrupt interrupt;
  WatchOptions watch;
  watch.passes_log = !json && !is_sweep(run.path);
  const auto status = follow_run(cli, inspector, run, watch, interrupt);
  if (!status && status.error().code == Errc::kInterrupted) {
    const bool has_points = is_sweep(run.path);
    print_note(
        cli,
        fmt::format(
            "stopped watching; job {} continues. `dlrun {} {}` {}, `dlrun cancel {}` cancels it",
            job, has_points ? "sweep" : "logs -f", run.id,
            has_points ? "shows its state" : "follows it again", run.id));
    return kExitInterrupted;
  }
  if (!status) return tl::unexpected(status.error());
  relay_in_background(cli.env, {run});
  if (json) print_json(status_json(run, *status));
  return print_end(cli, run, *status);
}

}  // namespace

std::string points_and_cost_text(const SweepPlan& sweep) {
  std::string text =
      fmt::format("{} point{}", sweep.points.size(), sweep.points.size() == 1 ? "" : "s");
  if (sweep.max_parallel) text += fmt::format(", {} at once", *sweep.max_parallel);
  if (sweep.arrays.size() > 1) text += fmt::format(", in {} arrays", sweep.arrays.size());
  const auto gpus = sum_of_hours(sweep, gpu_hours), cores = sum_of_hours(sweep, core_hours);
  if (gpus && *gpus > 0) text += fmt::format("; at most {:.1f} GPU-hours", *gpus);
  if (cores)
    text += fmt::format("{}{:.1f} core-hours", gpus && *gpus > 0 ? ", " : "; at most ", *cores);
  return text + ((gpus && *gpus > 0) || cores ? " altogether" : "");
}

Result<int> print_submitted(const Cli& cli, RunInspector& inspector, const Submitted& submitted,
                            const OutputOptions& output) {
  const RunDirectory& run = submitted.run;
  const auto printed = print_or_fail(
      [&] {
        if (output.json) {
          print_json(submission_json(cli.env, submitted));
        } else {
          submitted.points ? print_sweep(cli, submitted) : print_job(cli, submitted);
        }
      },
      queued_text(submitted));
  if (submitted.failure) return tl::unexpected(*submitted.failure);
  DLRUN_TRY(printed);
  if (submitted.is_interrupted) {
    print_note(cli,
               submitted.points
                   ? fmt::format("interrupted, but Slurm has accepted the jobs; `dlrun cancel "
                                 "{}` ends them",
                                 run.handle())
                   : fmt::format("interrupted, but Slurm has accepted the job; `dlrun cancel {}` "
                                 "ends it",
                                 run.id));
    return kExitInterrupted;
  }
  if (!output.watch) return kExitOk;
  return watch_to_the_end(cli, inspector, {run.id, run.name, run.path, run.created},
                          submitted.submissions.front().job.id, output.json);
}

}  // namespace dlrun
