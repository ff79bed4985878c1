// RunInspector collects the facts for assess(): it reads the files, finds out the outcome of
// interrupted submissions, and sends one query per executor for all runs of a call.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "common/text.h"
#include "launcher/executors/foreground.h"
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

}  // namespace

RunInspector::RunInspector(const Env& env, KnownServers servers)
    : env_(env), known_servers_(std::move(servers)), local_(make_local(env)) {}

Executor& RunInspector::executor_of(const RunFacts& facts) {
  if (facts.foreign) {
    foreign_ = std::make_unique<RefusingExecutor>(
        Error{Errc::kUsage, fmt::format("it is {}", describe(*facts.foreign))});
    return *foreign_;
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
  facts.foreign = foreign_folder(run);
  if (!facts.foreign && facts.submission) facts.foreign = facts.submission->foreign;
  if (!facts.foreign && facts.claim) facts.foreign = facts.claim->foreign;
  if (facts.submission && facts.submission->chain > 0) {
    DLRUN_TRY_ASSIGN(facts.follow_ups, read_follow_ups(run, *facts.submission));
    if (!facts.foreign) facts.foreign = foreign_owner_of(run, facts.follow_ups);
  }
  facts.record = std::move(record);
  if (facts.submission && !facts.record.has_events)
    facts.was_cancelled_before_start =
        is_marked_cancelled(run) ||
        (facts.submission->task && is_marked_cancelled(run.parent_path()));
  if (!facts.submission && !facts.claim && !facts.record.has_events) {
    std::error_code error;
    facts.is_recorded_only = std::filesystem::exists(run / "job.sh", error) ||
                             std::filesystem::exists(run / "spec.yaml", error);
    if (facts.is_recorded_only) return facts;
    if (!std::filesystem::exists(run, error) && !error) {
      return fail(Errc::kNotFound,
                  "{}: the run's directory is gone; if its job still runs, `squeue --me` lists it. "
                  "`dlrun rm {}` removes the run from your list",
                  run.string(), run.filename().string());
    }
    return fail(Errc::kNotFound,
                "{}: is not a run: it has no submission.json, claim or events.jsonl", run.string());
  }
  return facts;
}

Result<RunStatus> RunInspector::inspect(const std::filesystem::path& run,
                                        std::chrono::milliseconds max_age) {
  auto all = inspect_all({&run, 1}, max_age);
  return std::move(all.front());
}

std::vector<Result<RunStatus>> RunInspector::inspect_all(
    std::span<const std::filesystem::path> runs, std::chrono::milliseconds max_age) {
  // Replaces sweeps by their points, so that one query serves all of them.
  struct Part {
    std::size_t first = 0, count = 1;
    bool is_sweep = false;
    std::optional<Error> error;
  };
  std::vector<Part> parts;
  std::vector<std::filesystem::path> plain;
  for (const auto& run : runs) {
    Part& part = parts.emplace_back();
    part.first = plain.size();
    part.is_sweep = is_sweep(run);
    if (!part.is_sweep) {
      plain.push_back(run);
      continue;
    }
    const auto sweep = read_sweep(run);
    part.count = sweep ? sweep->points.size() : 0;
    if (!sweep) {
      part.error = sweep.error();
      continue;
    }
    for (const auto& point : sweep->points) plain.push_back(current_run_of(point_path(run, point)));
  }
  auto all = inspect_plain(plain, max_age);
  std::vector<Result<RunStatus>> result;
  for (const Part& part : parts) {
    if (part.error) {
      result.emplace_back(tl::unexpected(*part.error));
    } else if (!part.is_sweep) {
      result.push_back(std::move(all[part.first]));
    } else {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(part.first);
      const std::vector<Result<RunStatus>> points(
          std::make_move_iterator(begin),
          std::make_move_iterator(begin + static_cast<std::ptrdiff_t>(part.count)));
      result.emplace_back(sum_up_points(points));
      if (auto owner = foreign_owner(runs[result.size() - 1])) {
        result.back()->detail += "; " + describe(*owner);
        result.back()->facts.foreign = std::move(owner);
      }
    }
  }
  return result;
}

namespace {

/// Records the end of a run on this machine if lead has ended without recording it. Several
/// processes may notice that; the first one writes.
void take_lost_end(const std::filesystem::path& run, RunFacts& facts) {
  const auto job = job_of(facts);
  if (facts.record.ended || !job || job->cluster != kLocalCluster ||
      !has_local_process_ended(job->id))
    return;
  constexpr const char* kMessage = "lead ended without recording an end";
  constexpr int kCode = 1;  // the signal is unknown by now
  if (auto record = write_lost_end(run, kCode, kMessage); record) {
    facts.record = std::move(*record);
    return;
  }
  facts.record.ended = true;  // the folder cannot be written, so only this process sees the end
  facts.record.end_state = EndState::kFailed;
  facts.record.end_code = kCode;
  facts.record.end_message = kMessage;
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

/// Returns the run's status from all its facts, and removes the secrets of a run that is over.
RunStatus conclude(const std::filesystem::path& run, RunFacts facts) {
  if (!facts.record.ended && facts.has_answer &&
      (!facts.report || facts.report->phase == JobPhase::kEnded)) {
    // The job may have ended after its record was read and before Slurm was asked. An end in the
    // record takes precedence over a job that Slurm does not report.
    if (auto again = read_events(run); again) facts.record = std::move(*again);
    take_lost_end(run, facts);
  }
  RunStatus now = assess(std::move(facts));
  if ((is_over(now) || is_lost_submission(run, now)) && !now.facts.foreign)
    remove_secrets(run);  // lead removes them, unless it was killed or never started
  return now;
}

}  // namespace

std::vector<Result<RunStatus>> RunInspector::inspect_plain(
    std::span<const std::filesystem::path> runs, std::chrono::milliseconds max_age) {
  std::map<std::filesystem::path, Result<Submission>> settled_arrays;
  const auto settled_once = [&](const std::filesystem::path& run,
                                const RunFacts& one) -> Result<Submission> {
    const Submission& submission = *one.submission;
    if (!submission.task) return settle(run, submission, executor_of(one));
    const auto known = settled_arrays.find(run.parent_path());
    if (known == settled_arrays.end()) {
      auto settled = settle(run, submission, executor_of(one));
      return settled_arrays.emplace(run.parent_path(), std::move(settled)).first->second;
    }
    if (!known->second || known->second->state == Submission::State::kIntent) return known->second;
    DLRUN_TRY_ASSIGN(auto again, read_submission(run));
    return again.value_or(submission);
  };
  std::vector<Result<RunFacts>> facts;
  std::map<Executor*, std::vector<JobId>> jobs;
  for (const auto& run : runs) {
    facts.push_back(read_facts(run));
    if (!facts.back()) continue;
    RunFacts& f = *facts.back();
    if (f.record.ended) continue;
    // From here on dlrun acts on the contents of the files, so their owner must be the caller.
    if (!f.foreign) f.foreign = foreign_owner(run);
    if (f.foreign) continue;
    if (f.submission && f.submission->state == Submission::State::kRefused) continue;
    if (f.submission && f.submission->state == Submission::State::kIntent) {
      f.is_being_submitted = is_being_submitted(f.submission->task ? run.parent_path() : run);
      auto settled = settled_once(run, f);
      if (settled) {
        f.submission = std::move(*settled);
      } else {
        f.unreachable = settled.error().message;
        continue;
      }
    }
    if (!f.follow_ups.empty()) {
      settle_follow_ups(run, f);
      if (f.unreachable.empty()) ask_about_chain(f, max_age);
    } else if (const auto job = job_of(f)) {
      jobs[&executor_of(f)].push_back(*job);
    }
  }

  for (const auto& [executor, queried] : jobs)
    add_answers(executor->query(queried, max_age), executor, facts);
  std::vector<Result<RunStatus>> result;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (facts[i]) {
      result.emplace_back(conclude(runs[i], std::move(*facts[i])));
    } else {
      result.emplace_back(tl::unexpected(facts[i].error()));
    }
  }
  return result;
}

void RunInspector::settle_follow_ups(const std::filesystem::path& run, RunFacts& facts) {
  for (FollowUp& one : facts.follow_ups) {
    if (one.submission.state != Submission::State::kIntent) continue;
    // A job that Slurm does not have has no id, and is left out of the questions.
    auto settled = settle(follow_up_path(run, one.number), one.submission, executor_of(facts));
    if (!settled) {
      facts.unreachable = settled.error().message;
      return;
    }
    one.submission = std::move(*settled);
  }
}

void RunInspector::ask_about_chain(RunFacts& facts, std::chrono::milliseconds max_age) {
  const auto jobs = chain_jobs_of(facts);
  Executor& executor = executor_of(facts);
  // The jobs before the one that has the run have ended.
  auto first = std::find_if(jobs.begin(), jobs.end(), [&](const JobId& job) {
    return facts.claim && job.id == facts.claim->job.id;
  });
  if (first == jobs.end()) first = jobs.begin();
  const auto& restarts = facts.record.restarts;
  // The holder has ended for good if it has handed the run over: the next job then counts.
  const bool is_handed_over = !restarts.empty() && restarts.back().attempt == facts.record.attempt;
  // Each job is asked about alone, because squeue refuses a list with a job that it has forgotten.
  for (auto job = first; job != jobs.end(); ++job) {
    auto answer = executor.query({&*job, 1}, max_age);
    if (!answer) {
      // The end of an earlier job says nothing about the run: this job may continue it.
      facts.report.reset();
      facts.chain_job.reset();
      facts.has_answer = false;
      facts.unreachable = answer.error().message;
      return;
    }
    facts.has_answer = true;
    facts.why_no_accounting = answer->why_no_accounting;
    if (answer->reports.empty()) continue;
    JobReport& report = answer->reports.front();
    const bool has_ended = report.phase == JobPhase::kEnded;
    const bool is_superseded = is_handed_over && facts.chain_job == *first;
    if (has_ended && facts.report && !is_superseded) continue;
    facts.chain_job = *job;
    facts.report = std::move(report);
    if (!has_ended) return;
  }
}

void RunInspector::add_answers(const Result<QueryAnswer>& answer, const Executor* executor,
                               std::vector<Result<RunFacts>>& facts) {
  std::map<std::pair<std::string, std::string>, const JobReport*> reports;
  if (answer) {
    for (const auto& report : answer->reports)
      reports[{report.job.cluster, report.job.id}] = &report;
  }
  for (auto& one : facts) {
    if (!one || one->foreign || one->record.ended || !one->unreachable.empty() ||
        !one->follow_ups.empty())
      continue;
    const auto job = job_of(*one);
    if (!job || &executor_of(*one) != executor) continue;
    if (!answer) {
      one->unreachable = answer.error().message;
      continue;
    }
    one->has_answer = true;
    one->why_no_accounting = answer->why_no_accounting;
    const auto report = reports.find({job->cluster, job->id});
    if (report != reports.end()) one->report = *report->second;
  }
}

}  // namespace dlrun
