// RunInspector, which status.h declares, collects the facts for assess(): it reads the files, finds
// out the outcome of interrupted submissions, and asks each executor about many runs with one
// query.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/job_id.h"
#include "common/text.h"
#include "launcher/executors/foreground.h"
#include "launcher/runs/cancel_mark.h"
#include "launcher/runs/lost_end.h"
#include "launcher/runs/secrets_file.h"
#include "launcher/runs/status.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

/// Replaces an executor that must not be called: every call fails with the reason.
class RefusingExecutor final : public Executor {
 public:
  explicit RefusingExecutor(Error why) : why_(std::move(why)) {}
  Result<> check(const SubmitRequest&) override { return tl::unexpected(why_); }
  Result<JobId> submit(const SubmitRequest&) override { return tl::unexpected(why_); }
  Result<std::string> test(const SubmitRequest&) override { return tl::unexpected(why_); }

 private:
  Result<std::optional<JobId>> do_find(std::string_view, const std::string&) override {
    return tl::unexpected(why_);
  }
  Result<QueryAnswer> do_query(std::span<const JobId>, std::chrono::milliseconds) override {
    return tl::unexpected(why_);
  }
  Result<> do_cancel(const JobId&, std::string_view) override { return tl::unexpected(why_); }

  Error why_;
};

/// Returns the error about a run whose directory is gone. Does not suggest `dlrun rm` for a point:
/// a point has no entry in the index, and its directory's name is only a number, so `dlrun rm 1`
/// could delete an unrelated run.
tl::unexpected<Error> gone_error(const std::filesystem::path& run) {
  if (const auto sweep = sweep_of_point(run)) {
    return fail(Errc::kNotFound,
                "{}: the point's directory is gone, so nothing is known about this point of the "
                "sweep {}; its other points are not affected",
                printable(run.string()), printable(sweep->filename().string()));
  }
  return fail(
      Errc::kNotFound,
      "{}: the run's directory is gone; if its job in Slurm still runs, `squeue --me` lists the "
      "job. `dlrun rm {}` removes the run from your list",
      printable(run.string()), printable(run.filename().string()));
}

}  // namespace

RunInspector::RunInspector(const Env& env, KnownServers servers)
    : env_(env), known_servers_(std::move(servers)), local_(make_local(env)) {}

Executor& RunInspector::executor_of(const RunFacts& facts) {
  if (facts.foreign) {
    for_foreign_run_ = std::make_unique<RefusingExecutor>(
        Error{Errc::kUsage, fmt::format("it is {}", describe_foreign_run(*facts.foreign))});
    return *for_foreign_run_;
  }
  const auto job = job_of(facts);
  if ((job && job->cluster == kLocalCluster) ||
      (facts.submission && facts.submission->job.cluster == kLocalCluster))
    return *local_;
  return executor_of(facts.submission ? facts.submission->server : std::nullopt);
}

Executor& RunInspector::executor_of(const std::optional<RestServer>& server) {
  if (!server) {
    if (!slurm_) slurm_ = make_slurm_cli(env_);
    return *slurm_;
  }
  for (const auto& [known, executor] : servers_) {
    if (known == *server) return *executor;
  }
  auto listed = known_servers_.find(*server);
  auto executor = listed ? make_slurmrestd(env_, std::move(*listed))
                         : std::make_unique<RefusingExecutor>(listed.error());
  return *servers_.emplace_back(*server, std::move(executor)).second;
}

Result<RunFacts> RunInspector::read_facts(const std::filesystem::path& run) {
  RunFacts facts;
  DLRUN_TRY_ASSIGN(auto submission, read_submission(run));
  DLRUN_TRY_ASSIGN(auto claim, read_claim(run));
  DLRUN_TRY_ASSIGN(auto record, read_events(run));
  facts.submission = std::move(submission);
  facts.claim = std::move(claim);
  facts.foreign = foreign_owner_of_path(run);
  if (!facts.foreign && facts.submission) facts.foreign = facts.submission->foreign;
  if (!facts.foreign && facts.claim) facts.foreign = facts.claim->foreign;
  if (facts.submission && facts.submission->chain_job_count > 0) {
    DLRUN_TRY_ASSIGN(facts.follow_ups, read_follow_ups(run, *facts.submission));
    if (!facts.foreign) facts.foreign = foreign_owner_of_follow_ups(run, facts.follow_ups);
  }
  facts.record = std::move(record);
  if (!facts.record.ended || facts.record.end_state == EndState::kCancelled) {
    // `dlrun cancel` of a sweep marks all its arrays. A point may have ended before that, so the
    // mark of an array counts only for points that have not ended.
    const bool is_open_point = facts.submission && facts.submission->task && !facts.record.ended;
    facts.has_cancel_mark =
        is_marked_cancelled(run) || (is_open_point && is_marked_cancelled(run.parent_path()));
  }
  if (!facts.submission && !facts.claim && !facts.record.has_events) {
    std::error_code error;
    facts.is_only_prepared = std::filesystem::exists(run / "job.sh", error) ||
                             std::filesystem::exists(run / "spec.yaml", error);
    if (facts.is_only_prepared) return facts;
    if (!std::filesystem::exists(run, error) && !error) return gone_error(run);
    return fail(Errc::kNotFound,
                "{}: is not a run: it has no submission.json, no claim, and no event in "
                "events.jsonl",
                printable(run.string()));
  }
  return facts;
}

Result<RunStatus> RunInspector::inspect(const std::filesystem::path& run,
                                        std::chrono::milliseconds max_age) {
  auto all = inspect_all({&run, 1}, max_age);
  return std::move(all.front());
}

std::vector<Result<RunStatus>> RunInspector::inspect_all(
    std::span<const std::filesystem::path> runs, std::chrono::milliseconds max_age,
    EndedRuns ended_runs) {
  // The part of single_runs that belongs to one element of `runs`.
  struct Range {
    std::size_t first = 0, count = 1;
    bool is_sweep = false;
    std::optional<Error> error;
  };
  std::vector<Range> ranges;
  // Contains the points of each sweep in place of the sweep, so that one query serves all runs.
  std::vector<std::filesystem::path> single_runs;
  for (const auto& run : runs) {
    Range& range = ranges.emplace_back();
    range.first = single_runs.size();
    range.is_sweep = is_sweep(run);
    if (!range.is_sweep) {
      single_runs.push_back(run);
      continue;
    }
    const auto sweep = read_sweep(run);
    range.count = sweep ? sweep->points.size() : 0;
    if (!sweep) {
      range.error = sweep.error();
      continue;
    }
    for (const auto& point : sweep->points)
      single_runs.push_back(current_run_of(point_path(run, point)));
  }
  auto all = inspect_single_runs(single_runs, max_age, ended_runs);
  std::vector<Result<RunStatus>> result;
  for (const Range& range : ranges) {
    if (range.error) {
      result.emplace_back(tl::unexpected(*range.error));
    } else if (!range.is_sweep) {
      result.push_back(std::move(all[range.first]));
    } else {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(range.first);
      const std::vector<Result<RunStatus>> points(
          std::make_move_iterator(begin),
          std::make_move_iterator(begin + static_cast<std::ptrdiff_t>(range.count)));
      result.emplace_back(sum_up_points(points));
      if (auto owner = foreign_owner(runs[result.size() - 1])) {
        result.back()->detail += "; " + describe_foreign_run(*owner);
        result.back()->facts.foreign = std::move(owner);
      }
    }
  }
  return result;
}

namespace {

/// Records the end of a run on this machine if lead has ended without recording the end. If several
/// processes notice this, the first one writes. If the folder cannot be written, sets the end only
/// in `facts`.
void record_lost_end(const std::filesystem::path& run, RunFacts& facts) {
  const auto job = job_of(facts);
  if (facts.record.ended || !job || job->cluster != kLocalCluster ||
      !has_local_process_ended(job->id, pid_namespace_of(facts)))
    return;
  constexpr const char* kMessage = "lead ended without recording an end";
  constexpr int kCode = 1;  // how lead ended is unknown by now
  if (auto record = write_lost_end(run, kCode, kMessage); record) {
    facts.record = std::move(*record);
    return;
  }
  facts.record.ended = true;  // the folder cannot be written, so only this process sees the end
  facts.record.end_state = EndState::kFailed;
  facts.record.end_code = kCode;
  facts.record.end_message = kMessage;
}

/// Returns true if `job` has ended its attempt and left the run to the next job of the chain.
bool has_handed_over(const RunRecord& record, const JobId& job) {
  return !record.restarts.empty() && record.restarts.back().is_left_to_chain &&
         record.restarts.back().attempt == record.attempt && record.claimed_by == job.id;
}

/// Returns the job of the run's chain that claimed the run last, and the jobs after it; the jobs
/// before it have ended. Returns all jobs if none of them has claimed the run. If the claiming job
/// has handed the run over to the next one, the claiming job comes last in the result, because the
/// reports on the other jobs take precedence.
std::vector<JobId> open_chain_jobs_of(const RunFacts& facts) {
  auto jobs = chain_jobs_of(facts);
  const auto claiming_job = std::find_if(jobs.begin(), jobs.end(), [&](const JobId& job) {
    return facts.claim && job.id == facts.claim->job.id;
  });
  if (claiming_job != jobs.end()) jobs.erase(jobs.begin(), claiming_job);
  if (!jobs.empty() && has_handed_over(facts.record, jobs.front()))
    std::rotate(jobs.begin(), jobs.begin() + 1, jobs.end());
  return jobs;
}

/// The jobs of one run about which the executor is asked: one job, or the open jobs of a chain,
/// which start one after the other. dlrun asks about the next jobs of a chain only if all jobs that
/// it has asked about have ended. This saves queries: a query about a job that Slurm has forgotten
/// also asks accounting, and cannot use an answer that another process of dlrun got.
struct JobQuestion {
  RunFacts* facts = nullptr;
  Executor* executor = nullptr;
  std::vector<JobId> jobs;  ///< at least one
  /// The reports on the first jobs of `jobs`; nullopt for a job that the executor does not know.
  std::vector<std::optional<JobReport>> reports;
  bool is_answered = false;  ///< dlrun need not ask about another job
};

/// Adds the question about the run's jobs. Adds nothing if the run's files contain no job id. If an
/// id is malformed, only sets facts.why_unreachable: a query with this id would fail for the other
/// runs too.
void add_question(std::vector<JobQuestion>& questions, RunFacts& facts, Executor& executor) {
  std::vector<JobId> jobs;
  if (!facts.follow_ups.empty()) {
    jobs = open_chain_jobs_of(facts);
  } else if (auto job = job_of(facts)) {
    jobs.push_back(std::move(*job));
  }
  for (const JobId& job : jobs) {
    if (const auto checked = check_job_id(job); !checked) {
      facts.why_unreachable = checked.error().message;
      return;
    }
  }
  if (!jobs.empty()) questions.push_back({&facts, &executor, std::move(jobs), {}, false});
}

/// Returns the jobs to ask about now: at first one job, then each time as many jobs as all earlier
/// queries together. A few queries then suffice for a long chain whose jobs have all ended. Returns
/// jobs of one cluster only.
std::span<const JobId> next_jobs_of(const JobQuestion& question) {
  const std::size_t asked = question.reports.size();
  const auto remaining = std::span<const JobId>(question.jobs).subspan(asked);
  const auto next = remaining.first(std::min(remaining.size(), std::max<std::size_t>(asked, 1)));
  const auto on_other_cluster = std::find_if(next.begin(), next.end(), [&](const JobId& job) {
    return job.cluster != next.front().cluster;
  });
  return next.first(static_cast<std::size_t>(on_other_cluster - next.begin()));
}

/// Asks the executor about the next jobs of runs on one cluster. Sets facts.why_unreachable of
/// these runs if the executor does not answer.
void ask_about_next_jobs(Executor& executor, const std::vector<JobQuestion*>& questions,
                         std::chrono::milliseconds max_age) {
  std::vector<JobId> jobs;
  for (const JobQuestion* one : questions) {
    const auto next = next_jobs_of(*one);
    jobs.insert(jobs.end(), next.begin(), next.end());
  }
  const auto answer = executor.query(jobs, max_age);
  std::map<std::string_view, const JobReport*> reports;  // by the job's id
  if (answer) {
    for (const JobReport& report : answer->reports) reports[report.job.id] = &report;
  }
  for (JobQuestion* one : questions) {
    if (!answer) {
      one->facts->why_unreachable = answer.error().message;
      one->is_answered = true;
      continue;
    }
    one->facts->why_no_accounting = answer->why_no_accounting;
    for (const JobId& job : next_jobs_of(*one)) {
      const auto found = reports.find(job.id);
      auto& report = one->reports.emplace_back();
      if (found == reports.end()) continue;
      report = *found->second;
      if (report->phase != JobPhase::kEnded) one->is_answered = true;
    }
    if (one->reports.size() == one->jobs.size()) one->is_answered = true;
  }
}

/// Asks until each run has a job that runs or waits, or all of its jobs have been asked about.
void ask_executors(std::vector<JobQuestion>& questions, std::chrono::milliseconds max_age) {
  while (true) {
    std::map<std::pair<Executor*, std::string>, std::vector<JobQuestion*>> groups;
    for (JobQuestion& one : questions) {
      if (one.is_answered) continue;
      groups[{one.executor, next_jobs_of(one).front().cluster}].push_back(&one);
    }
    if (groups.empty()) return;
    for (const auto& [executor_and_cluster, group] : groups)
      ask_about_next_jobs(*executor_and_cluster.first, group, max_age);
  }
}

/// Adds to the run's facts the report on the first job of the chain that runs or waits, else on the
/// first job that the executor knows.
void add_chain_report(const JobQuestion& question) {
  RunFacts& facts = *question.facts;
  for (std::size_t i = 0; i < question.reports.size(); ++i) {
    const auto& report = question.reports[i];
    if (!report) continue;
    const bool has_ended = report->phase == JobPhase::kEnded;
    if (has_ended && facts.report) continue;
    facts.chain_job = question.jobs[i];
    facts.report = report;
    if (!has_ended) return;
  }
}

/// Adds the answer to the run's facts. Adds nothing if the executor did not answer. For a chain,
/// adds nothing if the answer about one job is missing, because the end of another job then does
/// not show the state of the run.
void add_answer(const JobQuestion& question) {
  RunFacts& facts = *question.facts;
  if (!facts.why_unreachable.empty()) return;
  facts.has_answer = true;
  if (facts.follow_ups.empty()) {
    facts.report = question.reports.front();
  } else {
    add_chain_report(question);
  }
}

/// Returns true if the run's files contain the id of a Slurm job.
bool is_slurm_run(const RunFacts& facts) {
  const auto job = job_of(facts);
  return job && job->cluster != kLocalCluster && !parse_local_job(job->id);
}

/// Returns true if Slurm reports no job of the run, and no process is submitting the run. Returns
/// false for a point whose array has no token yet, and for a run on this machine: both may be about
/// to start.
bool is_lost_submission(const std::filesystem::path& run, const RunStatus& status) {
  const RunFacts& f = status.facts;
  return status.state == RunState::kNotSubmitted && f.submission && !f.submission->token.empty() &&
         f.submission->job.cluster != kLocalCluster && !f.is_being_submitted &&
         !(f.submission->task && is_being_submitted(run.parent_path().parent_path()));
}

/// Returns the run's status from all its facts. Records the end of a run on this machine that lead
/// could not record. Removes the secrets of a run that is over or whose submission was lost.
RunStatus assess_and_clean_up(const std::filesystem::path& run, RunFacts facts) {
  if (!facts.record.ended && facts.has_answer &&
      (!facts.report || facts.report->phase == JobPhase::kEnded)) {
    // The job may have ended after its record was read and before Slurm was asked. An end in the
    // record takes precedence over a job that Slurm does not report.
    if (auto again = read_events(run); again) facts.record = std::move(*again);
    record_lost_end(run, facts);
  }
  RunStatus status = assess(std::move(facts));
  if ((is_over(status) || is_lost_submission(run, status)) && !status.facts.foreign)
    remove_secrets(run);  // lead removes them, unless it was killed or never started
  return status;
}

}  // namespace

std::vector<Result<RunStatus>> RunInspector::inspect_single_runs(
    std::span<const std::filesystem::path> runs, std::chrono::milliseconds max_age,
    EndedRuns ended_runs) {
  std::map<std::filesystem::path, Result<Submission>> outcomes;  // by the array's directory
  const auto outcome_of = [&](const std::filesystem::path& run,
                              const RunFacts& one) -> Result<Submission> {
    const Submission& submission = *one.submission;
    if (!submission.task) return find_and_record_outcome(run, submission, executor_of(one));
    const auto known = outcomes.find(run.parent_path());
    if (known == outcomes.end()) {
      auto outcome = find_and_record_outcome(run, submission, executor_of(one));
      return outcomes.emplace(run.parent_path(), std::move(outcome)).first->second;
    }
    if (!known->second || known->second->state == Submission::State::kIntent) return known->second;
    DLRUN_TRY_ASSIGN(auto again, read_submission(run));
    return again.value_or(submission);
  };
  std::vector<Result<RunFacts>> facts;
  facts.reserve(runs.size());  // the questions point to its elements
  std::vector<JobQuestion> questions;
  for (const auto& run : runs) {
    facts.push_back(read_facts(run));
    if (!facts.back()) continue;
    RunFacts& f = *facts.back();
    if (f.record.ended && (ended_runs == EndedRuns::kTrustRecord || !is_slurm_run(f))) continue;
    // From here on dlrun acts on the contents of the files, so this user must own the files.
    if (!f.foreign) f.foreign = foreign_owner(run);
    if (f.foreign) continue;
    if (f.submission && f.submission->state == Submission::State::kRefused) continue;
    if (f.submission && f.submission->state == Submission::State::kIntent) {
      f.is_being_submitted = is_being_submitted(f.submission->task ? run.parent_path() : run);
      auto outcome = outcome_of(run, f);
      if (outcome) {
        f.submission = std::move(*outcome);
      } else {
        f.why_unreachable = outcome.error().message;
        continue;
      }
    }
    find_and_record_follow_up_outcomes(run, f);
    if (f.why_unreachable.empty()) add_question(questions, f, executor_of(f));
  }

  ask_executors(questions, max_age);
  for (const JobQuestion& one : questions) add_answer(one);
  std::vector<Result<RunStatus>> result;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (facts[i]) {
      result.emplace_back(assess_and_clean_up(runs[i], std::move(*facts[i])));
    } else {
      result.emplace_back(tl::unexpected(facts[i].error()));
    }
  }
  return result;
}

void RunInspector::find_and_record_follow_up_outcomes(const std::filesystem::path& run,
                                                      RunFacts& facts) {
  for (FollowUp& one : facts.follow_ups) {
    if (one.submission.state != Submission::State::kIntent) continue;
    // If Slurm has no such job, the submission has no job id, and no question is asked about it.
    auto outcome = find_and_record_outcome(follow_up_path(run, one.number), one.submission,
                                           executor_of(facts));
    if (!outcome) {
      facts.why_unreachable = outcome.error().message;
      return;
    }
    one.submission = std::move(*outcome);
  }
}

}  // namespace dlrun
