#include "launcher/view/waiting_lines.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "common/job_id.h"
#include "common/text.h"
#include "launcher/runs/pending_reason.h"
#include "launcher/runs/resolve.h"

namespace dlrun {
namespace {

constexpr std::size_t kRunsNamed = 4;
/// The jobs of a dependency whose runs are looked up. Each lookup reads a file of every run.
constexpr std::size_t kJobsLookedUp = 8;
constexpr std::chrono::seconds kSqueueTimeLimit{2};

/// Returns a line for each of the user's runs among the jobs of a dependency.
std::vector<std::string> lines_of_dependency(const Env& env, std::string_view dependency) {
  std::vector<std::string> lines;
  auto jobs = job_ids_of_dependency(dependency);
  jobs.resize(std::min(jobs.size(), kJobsLookedUp));
  for (const std::string& job : jobs) {
    if (lines.size() == kRunsNamed) break;
    if (const auto run = find_run_of_job(env, job))
      lines.push_back(fmt::format("job {} is the run {}", job, printable(run->id)));
  }
  return lines;
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

std::string queue_place_text(const QueuePlace& place) {
  if (place.ahead == 0) return {};
  return fmt::format("{} of the {} pending jobs of {} {} {} before it", place.ahead,
                     std::max(place.pending, place.ahead + 1),
                     place.partitions.find(',') == std::string::npos ? "partition" : "partitions",
                     printable(place.partitions), place.ahead == 1 ? "comes" : "come");
}

std::vector<std::string> waiting_lines(const Env& env, const RunStatus& status) {
  const RunFacts& facts = status.facts;
  if (status.is_last_known || status.sweep || facts.foreign || !facts.report) return {};
  if (was_cancelled_while_waiting(status))
    return lines_of_dependency(env, submitted_dependency(facts));
  if (status.state != RunState::kPending) return {};
  if (facts.report->reason == "Dependency")
    return lines_of_dependency(env, submitted_dependency(facts));
  if (!facts.report->failed_dependencies.empty())
    return lines_of_dependency(env, join(facts.report->failed_dependencies, ","));
  if (!waits_for_its_turn(*facts.report) || !facts.submission || facts.submission->server)
    return {};
  const auto place = queue_place_of(env, status.job, kSqueueTimeLimit);
  const std::string text = place ? queue_place_text(*place) : std::string();
  return text.empty() ? std::vector<std::string>() : std::vector<std::string>{text};
}

}  // namespace dlrun
