#include "launcher/view/waiting_lines.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "common/job_id.h"
#include "common/text.h"
#include "launcher/runs/pending_reason.h"
#include "launcher/runs/resolve.h"
#include "launcher/view/run_text.h"

namespace dlrun {
namespace {

constexpr std::size_t kMostRunsShown = 4;
/// The largest number of jobs of a dependency whose runs are looked up. Each lookup reads a file of
/// every run.
constexpr std::size_t kJobsLookedUp = 8;
constexpr std::chrono::seconds kSqueueTimeout{2};

/// A run of the user whose job another job waits for.
struct AwaitedRun {
  std::string job, id;
  std::string end;  ///< recorded_end_text()
};

/// Returns the user's runs among the first kJobsLookedUp jobs of the dependency, at most
/// kMostRunsShown.
std::vector<AwaitedRun> runs_of_dependency(const Env& env, std::string_view dependency) {
  std::vector<AwaitedRun> runs;
  auto jobs = job_ids_of_dependency(dependency);
  jobs.resize(std::min(jobs.size(), kJobsLookedUp));
  for (const std::string& job : jobs) {
    if (runs.size() == kMostRunsShown) break;
    if (const auto run = find_run_of_job(env, job))
      runs.push_back({job, printable(run->id), recorded_end_text(run->path)});
  }
  return runs;
}

std::vector<std::string> lines_of_dependency(const Env& env, std::string_view dependency) {
  std::vector<std::string> lines;
  for (const AwaitedRun& one : runs_of_dependency(env, dependency))
    lines.push_back(fmt::format("job {} is the run {}{}", one.job, one.id, one.end));
  return lines;
}

/// Returns true for a run of this user about which Slurm has answered; false for a sweep.
/// For all other runs, waiting_lines() returns no lines, and end_text_with_runs() adds no text.
bool is_own_known_run(const RunStatus& status) {
  return !status.may_be_outdated && !status.sweep && !status.facts.foreign && status.facts.report;
}

}  // namespace

std::vector<std::string> job_ids_of_dependency(std::string_view dependency) {
  std::vector<std::string> jobs;
  std::string_view rest = dependency;
  while (!rest.empty()) {
    const auto end = rest.find_first_of(",?:");
    const auto word = rest.substr(0, end);
    // "12+30" starts 30 minutes after job 12; "12_*" is a whole array; squeue prints "12(failed)".
    const std::string job(word.substr(0, std::min(word.find_first_of("+("), word.find("_*"))));
    if (is_slurm_job_id(job) && std::find(jobs.begin(), jobs.end(), job) == jobs.end())
      jobs.push_back(job);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return jobs;
}

std::string recorded_end_text(const std::filesystem::path& run) {
  auto facts = RunInspector::read_facts(run);
  if (!facts) return {};
  if (facts->record.ended) return fmt::format(" ({})", word(assess(std::move(*facts)).state));
  const bool has_started = facts->record.has_events || facts->claim;
  return facts->has_cancel_mark && !has_started ? fmt::format(" ({})", word(RunState::kCancelled))
                                                : std::string();
}

std::string queue_place_text(const QueuePlace& place) {
  if (place.ahead == 0) return {};
  return fmt::format("{} of the {} pending jobs of {} {} {} before it", place.ahead,
                     std::max(place.pending, place.ahead + 1),
                     place.partitions.find(',') == std::string::npos ? "partition" : "partitions",
                     printable(place.partitions), place.ahead == 1 ? "comes" : "come");
}

std::vector<std::string> waiting_lines(const Env& env, const RunStatus& status) {
  const RunFacts& facts = status.facts;
  if (!is_own_known_run(status)) return {};
  if (was_cancelled_while_waiting(status)) {
    std::vector<std::string> lines;
    for (const AwaitedRun& one : runs_of_dependency(env, submitted_dependency(facts)))
      lines.push_back(fmt::format("for job {}, the run {}{}", one.job, one.id, one.end));
    return lines;
  }
  if (status.state != RunState::kPending) return {};
  if (facts.report->reason == "Dependency")
    return lines_of_dependency(env, submitted_dependency(facts));
  if (!facts.report->failed_dependencies.empty())
    return lines_of_dependency(env, join(facts.report->failed_dependencies, ","));
  if (!waits_for_its_turn(*facts.report) || !facts.submission || facts.submission->server)
    return {};
  const auto place = queue_place_of(env, status.job, kSqueueTimeout);
  const std::string text = place ? queue_place_text(*place) : std::string();
  return text.empty() ? std::vector<std::string>() : std::vector<std::string>{text};
}

std::string end_text_with_runs(const Env& env, const IndexEntry& run, const RunStatus& status) {
  std::string text = end_text(run, status);
  if (!is_own_known_run(status) || !was_cancelled_while_waiting(status)) return text;
  for (const AwaitedRun& one : runs_of_dependency(env, submitted_dependency(status.facts)))
    text += fmt::format("; job {0} is the run {1}{2}, see `dlrun status {1}`", one.job, one.id,
                        one.end);
  return text;
}

}  // namespace dlrun
