#include "runtime/agent/run_chain.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/file_and_owner.h"
#include "common/job_id.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "runtime/agent/retry.h"
#include "runtime/agent/run_claim.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kJournalLimitBytes = 1U << 20U;

/// Returns the id of Slurm's job in the journal (submission.json) of this folder; nullopt if the
/// journal cannot be read, belongs to another user, or contains no id of a Slurm job.
std::optional<std::string> job_in_journal(const std::filesystem::path& folder) {
  const auto file =
      read_file_and_owner(folder / "submission.json", kJournalLimitBytes, Links::kRefuse);
  if (!file || file->owner != ::geteuid()) return std::nullopt;
  const auto json = json_read::object_of(file->text);
  auto job = json ? json_read::text(*json, "job") : std::string();
  if (!is_slurm_job_id(job)) return std::nullopt;
  return job;
}

}  // namespace

std::optional<int> job_number_in_chain(const LeadOptions& options, const Env& env) {
  if (options.retry.chain == 0 || options.local_ranks || options.uses_existing_allocation)
    return std::nullopt;
  const auto number = parse_int(env.get_or("DLRUN_CHAIN", ""));
  if (!number || *number < 0 || *number >= options.retry.chain) return std::nullopt;
  return static_cast<int>(*number);
}

bool may_still_run(std::string_view state) {
  constexpr std::array<std::string_view, 10> kAlive{
      "PENDING", "CONFIGURING", "RUNNING",  "SIGNALING",    "SUSPENDED",
      "STOPPED", "RESIZING",    "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"};
  return std::find(kAlive.begin(), kAlive.end(), state) != kAlive.end();
}

Result<std::optional<UnneededJob>> why_unneeded(const std::filesystem::path& run,
                                                const LeadOptions& options, const Env& env,
                                                const std::string& own_job) {
  std::error_code error;
  // A folder that cannot be examined, on a broken file system for example, may still exist.
  if (std::filesystem::status(run, error).type() == std::filesystem::file_type::not_found) {
    return std::optional<UnneededJob>(
        {fmt::format("{}: the run's folder is gone; this job of its chain ends", run.string()), 1});
  }
  const auto read = read_history_file(run / "events.jsonl", options.program_is_bundled);
  if (!read && read.error().code != Errc::kNotFound) return tl::unexpected(read.error());
  if (read && read->last.run_has_ended) {
    const bool is_completed = read->last.run_is_completed;
    return std::optional<UnneededJob>(
        {fmt::format("the run {}; this job of its chain (retry.chain) has nothing to do",
                     is_completed ? "has completed" : "has ended"),
         is_completed ? 0 : std::max(read->last.code, 1)});
  }
  auto holder = run_holder(run);
  // Without a claim, the first job's lead has never run. Normally the first job has ended before it
  // could start lead. If somebody removed this job's dependency, the first job may still wait in
  // the queue.
  if (!holder && holder.error().code == Errc::kNotFound)
    holder = RunHolder{"", job_in_journal(run).value_or(""), 0};
  // claim_run() reports other problems.
  if (!holder || holder->job == own_job || !is_slurm_job_id(holder->job))
    return std::optional<UnneededJob>();
  // If Slurm does not answer, this job takes the run over: Slurm has started it, so normally the
  // job before it in the chain has ended. If ranks of that job still run, for example on a lost
  // node, the new attempt supersedes theirs.
  const auto facts = SlurmController(env, holder->job).job();
  if (facts && may_still_run(facts->state))
    return fail(Errc::kRefused,
                "{}: job {} of the same chain is {} and may still work on this run; this job ends",
                run.string(), holder->job, printable(facts->state));
  return std::optional<UnneededJob>();
}

std::vector<std::string> later_jobs(const std::filesystem::path& run, int number, int job_count) {
  std::vector<std::string> later;
  for (int next = number + 1; next < job_count; ++next) {
    if (auto job = job_in_journal(run / fmt::format("chain-{}", next)))
      later.push_back(std::move(*job));
  }
  return later;
}

std::optional<std::string> first_that_may_still_run(const std::vector<std::string>& jobs,
                                                    const Env& env) {
  for (const auto& job : jobs) {
    const auto facts = SlurmController(env, job).job();
    const bool may_run =
        facts ? may_still_run(facts->state) : facts.error().code != Errc::kNotFound;
    if (may_run) return job;
  }
  return std::nullopt;
}

std::vector<std::string> jobs_to_cancel(const std::vector<std::string>& later,
                                        std::string_view dependencies) {
  auto chosen = later;
  if (later.empty()) return chosen;
  const std::string& last = later.back();
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (auto at = dependencies.find(last); at != std::string_view::npos;
       at = dependencies.find(last, at + 1)) {
    const auto end = at + last.size();
    const bool is_whole = (at == 0 || !is_digit(dependencies[at - 1])) &&
                          (end == dependencies.size() || !is_digit(dependencies[end]));
    if (!is_whole) continue;
    chosen.pop_back();
    break;
  }
  return chosen;
}

}  // namespace dlrun::agent
