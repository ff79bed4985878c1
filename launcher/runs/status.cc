// assess() is pure: facts in, state out. RunInspector collects the facts: it reads the files,
// settles open submissions, and sends one query per executor for all runs of a call.
#include "launcher/runs/status.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "common/text.h"
#include "launcher/executors/foreground.h"
#include "launcher/runs/lost_end.h"
#include "launcher/runs/secrets_file.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

/// Returns the dependency that can no longer be fulfilled, such as "afterok:12, which can never
/// hold any more"; empty if Slurm reports none.
std::string never_satisfied(const JobReport& report) {
  constexpr std::string_view kReason = "DependencyNeverSatisfied";
  if (!report.reason.starts_with(kReason)) return {};
  const auto which = std::string_view(report.reason).substr(kReason.size());
  return fmt::format("{}, which can never hold any more",
                     which.starts_with(": ") ? printable(which.substr(2)) : "a dependency");
}

/// Explains Slurm's end states whose word alone is not clear.
std::string explain_end(const JobReport& report) {
  struct Row {
    std::string_view state, text;
  };
  constexpr std::array<Row, 8> kRows = {
      {{"TIMEOUT", "it reached its time limit"},
       {"OUT_OF_MEMORY", "it used more memory than it had asked for"},
       {"NODE_FAIL", "a node failed"},
       {"PREEMPTED", "a job with a higher priority took its nodes"},
       {"BOOT_FAIL", "a node did not boot"},
       {"DEADLINE", "it could not end before its deadline"},
       {"FAILED", "its script ended with an error"},
       {"CANCELLED", "it was cancelled"}}};
  std::string text = report.state;
  for (const auto& row : kRows) {
    if (row.state == report.state) text = fmt::format("{}: {}", report.state, row.text);
  }
  if (const auto never = never_satisfied(report); !never.empty() && report.state == "CANCELLED")
    text = fmt::format("{}: it waited for {}", report.state, never);
  if (report.exit_code && *report.exit_code != 0)
    text += fmt::format(" (code {})", *report.exit_code);
  if (report.signal != 0) text += fmt::format(" (signal {})", report.signal);
  return text;
}

RunState end_state(const RunRecord& record) {
  switch (record.end_state.value().value_or(EndState::kFailed)) {
    case EndState::kCompleted:
      return RunState::kCompleted;
    case EndState::kCancelled:
      return RunState::kCancelled;
    case EndState::kTimeout:
      return RunState::kTimeout;
    case EndState::kFailed:
      return RunState::kFailed;
  }
  return RunState::kFailed;
}

/// Returns true if a list of checks (health.preflight), such as "gpu,nccl", has one of collectives.
bool tries_collective(std::string_view checks) {
  const auto all = split(checks, ',');
  return std::any_of(all.begin(), all.end(),
                     [](std::string_view check) { return check == "nccl" || check == "gloo"; });
}

std::string running_detail(const RunRecord& record) {
  if (!record.has_events) return "the job runs; its leader has not said anything yet";
  if (!record.restarts.empty() && record.restarts.back().attempt == record.attempt)
    return fmt::format("attempt {} has ended ({}); the run starts again", record.attempt,
                       record.restarts.back().cause);
  if (!record.attempt_reason.empty())
    return fmt::format("attempt {} has ended ({})", record.attempt, record.attempt_reason.text());
  if (!record.joined && !record.checks.empty())
    return fmt::format("the nodes are checked ({}) before the ranks join",
                       printable(record.checks));
  if (!record.joined) return "waiting for the ranks to join";
  if (!record.checked && tries_collective(record.checks))
    return fmt::format("the ranks try a collective ({}) before the programs start",
                       printable(record.checks));
  return {};
}

/// Returns the state according to the run's own record, if there is no other answer.
RunState last_known(const RunRecord& record) {
  return record.has_events ? RunState::kRunning : RunState::kPending;
}

void assess_by_report(RunStatus& status, const JobReport& report) {
  const RunRecord& record = status.facts.record;
  switch (report.phase) {
    case JobPhase::kPending:
      status.state = RunState::kPending;
      status.detail = report.reason;
      if (const auto never = never_satisfied(report); !never.empty())
        status.detail = fmt::format("DependencyNeverSatisfied: it waits for {}", never);
      if (!record.restarts.empty())
        status.detail = fmt::format("attempt {} has ended ({}); queued again{}{}", record.attempt,
                                    record.restarts.back().cause, report.reason.empty() ? "" : ": ",
                                    report.reason);
      if (!report.start.empty())
        status.detail +=
            fmt::format("{}expected start {}", report.reason.empty() ? "" : ", ", report.start);
      return;
    case JobPhase::kRunning:
      status.state = RunState::kRunning;
      status.detail = report.state == "RUNNING" ? running_detail(record) : report.state;
      return;
    case JobPhase::kEnded:
      if (report.state == "COMPLETED") {
        status.state = RunState::kCompleted;
        if (record.has_events)
          status.detail = "Slurm says COMPLETED, but the run's own record has no end";
        return;
      }
      status.state = report.state == "CANCELLED" ? RunState::kCancelled
                     : report.state == "TIMEOUT" ? RunState::kTimeout
                                                 : RunState::kFailed;
      status.detail = explain_end(report);
      if (record.first_failed) status.detail += "; " + describe(*record.first_failed);
      return;
  }
}

}  // namespace

std::string_view word(RunState state) {
  switch (state) {
    case RunState::kNotSubmitted:
      return "not_submitted";
    case RunState::kRefused:
      return "refused";
    case RunState::kPending:
      return "pending";
    case RunState::kRunning:
      return "running";
    case RunState::kCompleted:
      return "completed";
    case RunState::kFailed:
      return "failed";
    case RunState::kCancelled:
      return "cancelled";
    case RunState::kTimeout:
      return "timeout";
    case RunState::kUnknown:
      return "unknown";
  }
  return "unknown";
}

bool is_final(RunState state) {
  return state != RunState::kPending && state != RunState::kRunning;
}

std::string describe(const RankFailure& failure) {
  std::string text = failure.rank >= 0 ? fmt::format("rank {}", failure.rank) : "a rank";
  if (!failure.host.empty()) text += fmt::format(" on {}", failure.host);
  text += failure.signal.empty() ? fmt::format(" ended with code {}", failure.code)
                                 : fmt::format(" was ended by {}", failure.signal);
  if (!failure.error.empty()) text += fmt::format(" ({})", failure.error);
  return text;
}

std::optional<JobId> job_of(const RunFacts& facts) {
  if (facts.submission && !facts.submission->job.id.empty()) return facts.submission->job;
  // Leaves out the claim's cluster: a query with -M requires the accounting database.
  if (facts.claim && parse_local_job(facts.claim->job.id))
    return JobId{std::string(kLocalCluster), facts.claim->job.id};
  if (facts.claim && !facts.claim->job.id.empty()) return JobId{"", facts.claim->job.id};
  return std::nullopt;
}

std::string_view token_of(const RunFacts& facts) {
  if (facts.submission && !facts.submission->token.empty()) return facts.submission->token;
  return facts.claim ? std::string_view(facts.claim->token) : std::string_view();
}

RunStatus assess(RunFacts facts) {
  RunStatus status;
  status.facts = std::move(facts);
  const RunFacts& f = status.facts;
  const auto job = job_of(f);
  if (job) status.job = *job;

  if (f.record.ended) {
    status.state = end_state(f.record);
    status.detail = f.record.end_message;
    return status;
  }
  if (f.foreign) {
    const bool is_refused = f.submission && f.submission->state == Submission::State::kRefused;
    const bool is_known = is_refused || f.record.has_events || job.has_value();
    status.state = is_refused ? RunState::kRefused
                   : is_known ? last_known(f.record)
                              : RunState::kUnknown;
    status.is_last_known = !is_refused;
    status.detail = describe(*f.foreign);
    return status;
  }
  if (f.is_recorded_only) {
    status.state = RunState::kNotSubmitted;
    status.detail =
        "its directory was made, but dlrun was ended before it sent the job, or is about to; "
        "submit it again";
    return status;
  }
  if (f.submission && f.submission->state == Submission::State::kRefused) {
    status.state = RunState::kRefused;
    status.detail = f.submission->message;
    return status;
  }
  if (f.report) {
    assess_by_report(status, *f.report);
    return status;
  }
  if (f.submission && f.submission->state == Submission::State::kIntent && !job &&
      f.is_being_submitted) {
    status.state = RunState::kPending;
    status.is_last_known = !f.unreachable.empty();
    status.detail = "it is being submitted, and Slurm has not answered yet";
    return status;
  }
  if (!f.unreachable.empty()) {
    status.is_last_known = true;
    const bool is_open =
        f.submission && f.submission->state == Submission::State::kIntent && !f.claim;
    status.state = is_open ? RunState::kUnknown : last_known(f.record);
    status.detail =
        is_open ? fmt::format("it is not known whether Slurm took the job; {}", f.unreachable)
                : f.unreachable;
    return status;
  }
  if (f.submission && f.submission->state == Submission::State::kIntent && !job) {
    status.state = RunState::kNotSubmitted;
    if (!f.submission->task) {
      status.detail = "the submission was interrupted, and Slurm knows no job of it; submit again";
    } else {
      status.detail = fmt::format(
          "{}; `dlrun resubmit` of the sweep submits what is missing",
          f.submission->token.empty()
              ? "it was not submitted: the submission ended before its array's turn"
              : "the submission of its array was interrupted, and Slurm knows no job of it");
    }
    return status;
  }
  if (f.was_cancelled && f.was_asked && !f.record.has_events) {
    status.state = RunState::kCancelled;
    status.detail = "it was cancelled before it started";
    return status;
  }
  status.state = RunState::kUnknown;
  if (!f.was_asked) {
    status.detail = "its files name no job";
  } else if (status.job.cluster == kLocalCluster) {
    status.detail = fmt::format("it ran on {}, and only there can be seen whether it goes on",
                                host_of_local_job(status.job.id));
  } else {
    status.detail = fmt::format("Slurm no longer knows job {}, and the run's own record has no end",
                                status.job.id);
    if (!f.accounting.empty()) status.detail += fmt::format(" (accounting: {})", f.accounting);
  }
  return status;
}

namespace {

/// Stands in for an executor that must not be asked: every call fails with the reason.
class Refusing final : public Executor {
 public:
  explicit Refusing(Error why) : why_(std::move(why)) {}
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
    : env_(env),
      known_servers_(std::move(servers)),
      slurm_(make_slurm_cli(env)),
      local_(make_local(env)) {}

Executor& RunInspector::executor_of(const RunFacts& facts) {
  if (facts.foreign) {
    foreign_ = std::make_unique<Refusing>(
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
  if (!server) return *slurm_;
  for (const auto& [known, executor] : servers_) {
    if (known == *server) return *executor;
  }
  auto listed = known_servers_.find(*server);
  auto executor = listed ? make_slurmrestd(env_, std::move(*listed))
                         : std::make_unique<Refusing>(listed.error());
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
  facts.record = std::move(record);
  if (facts.submission && !facts.record.has_events)
    facts.was_cancelled = is_marked_cancelled(run) ||
                          (facts.submission->task && is_marked_cancelled(run.parent_path()));
  if (!facts.submission && !facts.claim && !facts.record.has_events) {
    std::error_code error;
    facts.is_recorded_only = std::filesystem::exists(run / "job.sh", error) ||
                             std::filesystem::exists(run / "spec.yaml", error);
    if (facts.is_recorded_only) return facts;
    if (!std::filesystem::exists(run, error) && !error) {
      return fail(Errc::kNotFound,
                  "{}: the run's directory is gone; if its job still runs, `squeue --me` lists it",
                  run.string());
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

bool is_unreachable(const RunStatus& status) {
  return status.is_last_known && !status.facts.foreign;
}

bool is_submission_open(const RunStatus& status) {
  const RunFacts& f = status.facts;
  return f.submission && f.submission->state == Submission::State::kIntent && !job_of(f) &&
         (f.is_being_submitted || !f.unreachable.empty());
}

bool is_over(const RunStatus& status) {
  if (status.is_last_known) return false;
  switch (status.state) {
    case RunState::kCompleted:
    case RunState::kFailed:
    case RunState::kTimeout:
    case RunState::kCancelled:
    case RunState::kRefused:
      return true;
    case RunState::kNotSubmitted:
    case RunState::kPending:
    case RunState::kRunning:
    case RunState::kUnknown:
      return false;
  }
  return false;
}

std::string describe(const SweepCounts& counts) {
  std::string text = fmt::format("{} point{}", counts.points, counts.points == 1 ? "" : "s");
  const char* separator = ": ";
  const auto add = [&](std::size_t count, const char* what) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", separator, count, what);
    separator = ", ";
  };
  add(counts.completed, "completed");
  add(counts.failed, "failed");
  add(counts.cancelled, "cancelled");
  add(counts.running, "running");
  add(counts.pending, "pending");
  add(counts.not_submitted, "not submitted");
  add(counts.unknown, "unknown");
  return text;
}

RunStatus sum_up_points(const std::vector<Result<RunStatus>>& points) {
  RunStatus status;
  SweepCounts counts;
  counts.points = points.size();
  std::string why_pending;
  for (const auto& point : points) {
    if (!point) {
      ++counts.unknown;
      continue;
    }
    if (status.job.id.empty() && !point->job.id.empty())
      status.job = {point->job.cluster, point->job.id.substr(0, point->job.id.find('_'))};
    if (point->is_last_known) status.is_last_known = true;
    if (is_unreachable(*point)) status.facts.unreachable = point->facts.unreachable;
    switch (point->state) {
      case RunState::kPending:
        ++counts.pending;
        if (why_pending.empty()) why_pending = point->detail;
        break;
      case RunState::kRunning:
        ++counts.running;
        break;
      case RunState::kCompleted:
        ++counts.completed;
        break;
      case RunState::kFailed:
      case RunState::kTimeout:
      case RunState::kRefused:
        ++counts.failed;
        break;
      case RunState::kCancelled:
        ++counts.cancelled;
        break;
      case RunState::kNotSubmitted:
        ++counts.not_submitted;
        break;
      case RunState::kUnknown:
        ++counts.unknown;
        break;
    }
  }
  status.detail = describe(counts);
  if (counts.pending == counts.points) {
    status.state = RunState::kPending;
    if (!why_pending.empty()) status.detail += "; " + why_pending;
  } else if (counts.running + counts.pending > 0) {
    status.state = RunState::kRunning;
  } else if (counts.completed == counts.points) {
    status.state = RunState::kCompleted;
  } else if (counts.failed > 0) {
    status.state = RunState::kFailed;
  } else if (counts.cancelled > 0) {
    status.state = RunState::kCancelled;
  } else {
    status.state = counts.unknown > 0 ? RunState::kUnknown : RunState::kNotSubmitted;
  }
  status.sweep = counts;
  return status;
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

/// Writes the end of a run whose leader on this machine is gone without having written it. Several
/// processes may notice; the first one writes.
void take_lost_end(const std::filesystem::path& run, RunFacts& facts) {
  const auto job = job_of(facts);
  if (facts.record.ended || !job || job->cluster != kLocalCluster || !is_gone_from_here(job->id))
    return;
  constexpr const char* kMessage = "its leader is gone and left no word";
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

/// Returns true if Slurm has said that it has no job of the run, and nobody is submitting the run.
/// A point whose array has no token yet, and a run on this machine, may be about to start.
bool is_lost_submission(const std::filesystem::path& run, const RunStatus& status) {
  const RunFacts& f = status.facts;
  return status.state == RunState::kNotSubmitted && f.submission && !f.submission->token.empty() &&
         f.submission->job.cluster != kLocalCluster && !f.is_being_submitted &&
         !(f.submission->task && is_being_submitted(run.parent_path().parent_path()));
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
    // From here on dlrun acts on what the files say, so their owner must be the caller.
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
    if (const auto job = job_of(f)) jobs[&executor_of(f)].push_back(*job);
  }

  for (const auto& [executor, asked] : jobs) {
    const auto answer = executor->query(asked, max_age);
    std::map<std::pair<std::string, std::string>, const JobReport*> reports;
    if (answer) {
      for (const auto& report : answer->reports)
        reports[{report.job.cluster, report.job.id}] = &report;
    }
    for (auto& one : facts) {
      if (!one || one->foreign || one->record.ended || !one->unreachable.empty()) continue;
      const auto job = job_of(*one);
      if (!job || &executor_of(*one) != executor) continue;
      if (!answer) {
        one->unreachable = answer.error().message;
        continue;
      }
      one->was_asked = true;
      one->accounting = answer->accounting;
      const auto report = reports.find({job->cluster, job->id});
      if (report != reports.end()) one->report = *report->second;
    }
  }

  std::vector<Result<RunStatus>> result;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    auto& one = facts[i];
    if (!one) {
      result.emplace_back(tl::unexpected(one.error()));
      continue;
    }
    if (!one->record.ended && one->was_asked &&
        (!one->report || one->report->phase == JobPhase::kEnded)) {
      // The job may have ended after its record was read and before Slurm was asked. An end in the
      // record counts more than Slurm's silence.
      if (auto again = read_events(runs[i]); again) one->record = std::move(*again);
      take_lost_end(runs[i], *one);
    }
    result.emplace_back(assess(std::move(*one)));
    const RunStatus& now = *result.back();
    if ((is_over(now) || is_lost_submission(runs[i], now)) && !now.facts.foreign)
      remove_secrets(runs[i]);  // lead does it, unless it was killed or never started
  }
  return result;
}

}  // namespace dlrun
