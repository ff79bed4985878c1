#include "launcher/view/run_log.h"

#include <string>

#include "common/text.h"

namespace dlrun {

Result<LogReader> open_log(RunInspector& inspector, const IndexEntry& run,
                           const LogChoice& choice) {
  DLRUN_TRY_ASSIGN(const auto facts, RunInspector::read_facts(run.path));
  std::optional<std::filesystem::path> path;
  if (choice.rank) {
    path = rank_log(run.path, choice.attempt.value_or(facts.record.attempt), *choice.rank,
                    choice.component);
  } else {
    path = job_log(run.path, facts);
  }
  std::error_code error;
  if (path && std::filesystem::exists(*path, error)) return LogReader(*path, facts);
  const auto status = inspector.inspect(run.path);
  const bool is_ended = status && is_over(*status);
  if (!path && facts.submission && !facts.submission->output.empty() && is_ended)
    return fail(Errc::kNotFound, "{}: only Slurm knows which file its log is: {}", run.id,
                printable(facts.submission->output));
  const bool has_components = std::filesystem::exists(run.path / "components.json", error);
  if (choice.rank && choice.component.empty() && has_components)
    return fail(Errc::kUsage,
                "{}: has several components, each with its own ranks: give --component", run.id);
  return fail(Errc::kNotFound, "{}: there is no {}{}; the run is {}",
              path ? printable(path->string()) : run.id, choice.rank ? "log of this rank" : "log",
              is_ended ? "" : " yet", status ? std::string(word(status->state)) : "unknown");
}

}  // namespace dlrun
