#include "launcher/submit/submission_text.h"

#include "common/text.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/view/cost_text.h"
#include "launcher/view/start_and_limits.h"

namespace dlrun {
namespace {

/// Returns the limits of the job's partition as text, or "" if they are unknown. Reads the
/// partition's name from the script, which the user may have edited.
std::string partition_limits(const Job& job) {
  if (!job.experiment || job.source == Job::Source::kRun) return "";
  return partition_text(job.experiment->loaded.site,
                        sbatch_value(job.script, "--partition", "-p").value_or(""));
}

/// Returns a line about the follow-up jobs of a run with retry.chain; "" if the run has none.
std::string follow_ups_text(const Submitted& submitted) {
  std::vector<std::string> ids;
  for (const Submission& one : submitted.follow_ups) ids.push_back(one.job.id);
  if (ids.empty()) return {};
  return fmt::format("job{} {} continue{} the run when it reaches its time limit or is preempted",
                     ids.size() == 1 ? "" : "s", join(ids, ", "), ids.size() == 1 ? "s" : "");
}

/// Returns how many points of the sweep this call submits, and their cost if it is known.
std::string points_text(const Submitted::Points& points) {
  if (points.plan) return points_and_cost_text(*points.plan);
  return points.to_submit_count == points.all_count
             ? fmt::format("all {} points", points.all_count)
             : fmt::format("{} of {} points: those that Slurm had not accepted before",
                           points.to_submit_count, points.all_count);
}

void add_sweep_lines(LabelledLines& lines, const Submitted& submitted) {
  const RunDirectory& run = submitted.run;
  lines.push_back({"sweep", points_text(*submitted.points)});
  lines.push_back({"directory", run.path.string()});
  lines.push_back({"points", fmt::format("dlrun sweep {}", run.handle())});
  lines.push_back({"state", fmt::format("dlrun status {}", run.handle())});
  const std::string point =
      run.is_indexed ? run.id + "/0" : (array_path(run.path, 0) / "0").string();
  lines.push_back({"one point", "dlrun logs -f " + point});
}

void add_job_lines(LabelledLines& lines, const Submitted& submitted) {
  add_line(lines, "cost", cost_text(submitted.job.requests.requested));
  add_line(lines, "partition", partition_limits(submitted.job));
  for (LabelledLine& line : lines_about(submitted.run)) lines.push_back(std::move(line));
}

}  // namespace

LabelledLines lines_about(const RunDirectory& run) {
  return {{"directory", run.path.string()},
          {"follow", fmt::format("dlrun logs -f {}", run.handle())},
          {"state", fmt::format("dlrun status {}", run.handle())}};
}

std::string jobs_text(const Submitted& submitted) {
  if (!submitted.points) {
    const JobId& job = submitted.submissions.front().job;
    return fmt::format("as job {}{}", job.id, job.cluster.empty() ? "" : " on " + job.cluster);
  }
  std::vector<std::string> jobs = job_ids_of(submitted);
  const std::size_t all = jobs.size();
  constexpr std::size_t kJobsShown = 8;
  if (all > kJobsShown) jobs.resize(kJobsShown);
  return fmt::format("as job{} {}{}", all == 1 ? "" : "s", join(jobs, " "),
                     all > kJobsShown ? fmt::format(" ... ({} arrays)", all) : "");
}

SubmissionFacts facts_about(const Env& env, const Submitted& submitted) {
  SubmissionFacts facts;
  if (!submitted.points) add_line(facts.lines, "chain", follow_ups_text(submitted));
  const Submission& first = submitted.submissions.front();
  const auto report = report_of_new_job(env, first);
  if (report) facts.lines.push_back({"start", start_text(*report, first.dependency)});
  add_lines(facts.lines, "waits", waits_texts(submitted.job.prior_runs));
  if (submitted.points) {
    add_sweep_lines(facts.lines, submitted);
  } else {
    add_job_lines(facts.lines, submitted);
  }
  if (const auto obstacle = report ? cannot_start_text(*report) : ""; !obstacle.empty())
    facts.warning =
        fmt::format("{}. `dlrun cancel {}` cancels it", obstacle, submitted.run.handle());
  return facts;
}

std::string queued_text(const Submitted& submitted) {
  const RunDirectory& run = submitted.run;
  if (submitted.points) {
    const auto jobs = job_ids_of(submitted);
    return fmt::format("the sweep {} is submitted, as job{} {}; `dlrun status {}` shows it", run.id,
                       jobs.size() == 1 ? "" : "s", join(jobs, " "), run.handle());
  }
  const JobId& queued = submitted.submissions.front().job;
  return fmt::format("the run {} is submitted, as job {}{}; `dlrun status {}` shows it", run.id,
                     queued.id, queued.cluster.empty() ? "" : " on " + queued.cluster,
                     run.handle());
}

std::string interrupted_text(const Submitted& submitted) {
  return submitted.points
             ? fmt::format(
                   "interrupted, but Slurm has accepted the jobs; `dlrun cancel {}` ends "
                   "them",
                   submitted.run.handle())
             : fmt::format("interrupted, but Slurm has accepted the job; `dlrun cancel {}` ends it",
                           submitted.run.handle());
}

std::string stopped_watching_text(const IndexEntry& run, const std::string& job) {
  if (is_sweep(run.path))
    return fmt::format(
        "stopped watching; the sweep continues. `dlrun sweep {}` lists its points, `dlrun cancel "
        "{}` cancels the sweep",
        run.id, run.id);
  return fmt::format(
      "stopped watching; job {} continues. `dlrun logs -f {}` follows its log again, `dlrun cancel "
      "{}` cancels the job",
      job, run.id, run.id);
}

}  // namespace dlrun
