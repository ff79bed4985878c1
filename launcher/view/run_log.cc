#include "launcher/view/run_log.h"

#include <string>

#include "common/text.h"

namespace dlrun {

Result<LogReader> open_log(RunInspector& inspector, const IndexEntry& run,
                           std::optional<std::int64_t> rank, std::optional<std::int64_t> attempt) {
  DLRUN_TRY_ASSIGN(const auto facts, RunInspector::read_facts(run.path));
  std::optional<std::filesystem::path> path;
  if (rank) {
    path = rank_log(run.path, attempt.value_or(facts.record.attempt), *rank);
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
  return fail(Errc::kNotFound, "{}: there is no {}{}; the run is {}",
              path ? printable(path->string()) : run.id, rank ? "log of this rank" : "log",
              is_ended ? "" : " yet", status ? std::string(word(status->state)) : "unknown");
}

}  // namespace dlrun
