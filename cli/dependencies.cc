#include "cli/dependencies.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/output.h"
#include "cli/select.h"
#include "common/text.h"

namespace dlrun {
namespace {

/// "afterok:12"; nothing where the run is over, and as it should be.
Result<std::optional<std::string>> word_of(const Cli& cli, RunInspector& inspector, const LaunchPlan& plan,
                                           const PlannedDependency& one) {
  if (one.is_job_id()) return std::optional(one.type + ":" + one.run);
  const auto run = select_run(cli, one.run);
  if (!run) return tl::unexpected(run.error());
  const auto status = inspector.inspect(run->path);
  if (!status) return tl::unexpected(status.error());
  const bool is_ended = status->state == RunState::kCompleted || status->state == RunState::kFailed ||
                        status->state == RunState::kCancelled;
  if (is_ended && !status->is_last_known) {
    const bool is_completed = status->state == RunState::kCompleted;
    const bool is_as_asked = one.type == "afterany" || is_completed == (one.type == "afterok");
    if (is_as_asked) return std::optional<std::string>();
    return fail(Errc::kInvalid, "{} is {}: this job would never start", run->id, word(status->state));
  }
  if (status->state == RunState::kRefused || status->job.id.empty())
    return fail(Errc::kInvalid, "{} has no job to wait for: it is {}", run->id, word(status->state));
  if (status->job.cluster == kLocalCluster)
    return fail(Errc::kInvalid, "{} runs on this machine, and Slurm cannot wait for it; `dlrun wait {}` can", run->id,
                run->id);
  if (status->job.cluster != plan.clusters.value_or(""))
    return fail(Errc::kInvalid, "{} is a job of another cluster, {}", run->id,
                status->job.cluster.empty() ? "the default one" : status->job.cluster);
  return std::optional(one.type + ":" + status->job.id);
}

}  // namespace

Result<std::optional<std::string>> dependency_of(const Cli& cli, RunInspector& inspector, const LoadedSpec& loaded,
                                                 const LaunchPlan& plan, const std::optional<std::string>& edited) {
  const bool is_in_script =
      std::all_of(plan.after.begin(), plan.after.end(), [](const PlannedDependency& one) { return one.is_job_id(); });
  if (is_in_script) return std::optional<std::string>();
  std::vector<std::string> words;
  std::vector<Diagnostic> wrong;
  if (edited && edited->find('?') != std::string::npos) {
    return fail(Errc::kInvalid,
                "--dependency={}: the spec that the script carries waits for runs, too (its `after`), and Slurm cannot "
                "wait for those and for one of several",
                *edited);
  }
  if (edited && !edited->empty()) words.push_back(*edited);
  for (const PlannedDependency& one : plan.after) {
    if (edited && one.is_job_id()) continue;
    auto word = word_of(cli, inspector, plan, one);
    if (word && *word) words.push_back(std::move(**word));
    if (word) continue;
    const auto origin = loaded.spec.origins.find(one.key);
    const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
    wrong.push_back({Diagnostic::Severity::kError, where, fmt::format("{}: {}", one.key, word.error().message),
                     line_under(loaded, where)});
  }
  if (!wrong.empty()) {
    print_diagnostics(cli, wrong);
    return fail(Errc::kInvalid, "");
  }
  return words.empty() ? std::optional<std::string>() : std::optional(join(words, ","));
}

}  // namespace dlrun
