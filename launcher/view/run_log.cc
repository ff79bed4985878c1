#include "launcher/view/run_log.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/text.h"

namespace dlrun {
namespace {

/// Fails with kUsage if the job has components, so that the number of a rank is not enough.
Result<> require_no_components(const IndexEntry& run) {
  std::error_code error;
  if (!std::filesystem::exists(run.path / "components.json", error)) return {};
  return fail(Errc::kUsage, "{}: has several components, each with its own ranks: give --component",
              run.id);
}

/// Returns the number of ranks of the chosen attempt and component; 0 if the record does not know
/// it.
std::int64_t ranks_of(const RunRecord& record, const LogChoice& choice) {
  if (choice.attempt && *choice.attempt != record.attempt) return 0;
  if (choice.component.empty()) return record.components.empty() ? record.ranks : 0;
  const auto found =
      std::find_if(record.components.begin(), record.components.end(),
                   [&](const RecordedComponent& one) { return one.name == choice.component; });
  return found == record.components.end() ? 0 : found->ranks;
}

/// Fails with kNotFound if the record shows that there is no such rank.
Result<> require_rank(const IndexEntry& run, const RunRecord& record, const LogChoice& choice) {
  const std::int64_t ranks = ranks_of(record, choice);
  if (ranks <= 0 || *choice.rank < ranks) return {};
  const std::string component =
      choice.component.empty() ? "" : fmt::format("component {} ", printable(choice.component));
  return fail(Errc::kNotFound, "{}: {}has no rank {}: {}", printable(run.id), component,
              *choice.rank,
              ranks == 1 ? "its only rank is 0" : fmt::format("its ranks are 0 to {}", ranks - 1));
}

/// Fails with kNotFound if the record shows that there is no such attempt.
Result<> require_attempt(const IndexEntry& run, const RunRecord& record, const LogChoice& choice) {
  if (!choice.attempt || !record.has_events || *choice.attempt <= record.attempt) return {};
  return fail(Errc::kNotFound, "{}: has no attempt {}: {}", printable(run.id), *choice.attempt,
              record.attempt == 0 ? "its only attempt is 0"
                                  : fmt::format("its attempts are 0 to {}", record.attempt));
}

/// Returns the end of the message about a missing log of a rank: a job without the agent, such as a
/// job script, has one log. Returns "" for a job with the agent, and if there is no log at all.
std::string hint_on_job_log(const IndexEntry& run, const RunFacts& facts) {
  const auto log = job_log(run.path, facts);
  std::error_code error;
  if (facts.record.has_events || !log || !std::filesystem::exists(*log, error)) return {};
  return fmt::format("; all ranks write to one log, which `dlrun logs {}` shows", run.id);
}

/// Returns the end of the message about a missing log: the log of an ended run may be deleted.
/// Returns "" if the record does not show that the ranks of the attempt have started, because then
/// there may have been no log.
std::string hint_on_deletion(const RunRecord& record, const LogChoice& choice) {
  const bool has_started = record.ranks > 0 || !record.components.empty();
  const bool is_later_attempt = choice.attempt && *choice.attempt > record.attempt;
  if (!record.ended || !has_started || is_later_attempt) return {};
  return "; the log may have been deleted, for example by `dlrun prune --keep-checkpoints`";
}

/// Returns true if the run was cancelled while its job waited, so that nothing wrote a log. A job
/// without the agent has no events, but a log of the job shows that the job has started.
bool was_cancelled_before_start(const IndexEntry& run, const RunStatus& status) {
  const auto log = job_log(run.path, status.facts);
  std::error_code error;
  return status.state == RunState::kCancelled && !status.facts.claim &&
         !status.facts.record.has_events && !(log && std::filesystem::exists(*log, error));
}

}  // namespace

Result<LogReader> open_run_log(RunInspector& inspector, const IndexEntry& run,
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
  if (choice.rank) {
    DLRUN_TRY(require_attempt(run, facts.record, choice));
    DLRUN_TRY(require_rank(run, facts.record, choice));
  }
  const auto status = inspector.inspect(run.path);
  const bool is_ended = status && is_over(*status);
  if (!path && facts.submission && !facts.submission->log_pattern.empty() && is_ended)
    return fail(Errc::kNotFound, "{}: only Slurm knows which file its log is: {}", run.id,
                printable(facts.submission->log_pattern));
  if (choice.rank && choice.component.empty()) DLRUN_TRY(require_no_components(run));
  const char* const wanted = choice.rank ? "log of this rank" : "log";
  if (status && was_cancelled_before_start(run, *status))
    return fail(Errc::kNotFound, "{}: there is no {}: the run was cancelled before it started",
                run.id, wanted);
  return fail(Errc::kNotFound, "{}: there is no {}{}; the state of the run is {}{}{}",
              path ? printable(path->string()) : run.id, wanted, is_ended ? "" : " yet",
              status ? std::string(word(status->state)) : "unknown",
              hint_on_deletion(facts.record, choice),
              choice.rank ? hint_on_job_log(run, facts) : "");
}

std::optional<LogReader> error_log_with_text(const IndexEntry& run) {
  const auto facts = RunInspector::read_facts(run.path);
  const auto path = facts ? error_log(run.path, *facts) : std::nullopt;
  if (!path) return std::nullopt;
  const auto beginning = LogReader(*path, *facts).read_more(1);
  if (!beginning || beginning->empty()) return std::nullopt;
  return LogReader(*path, *facts);
}

Result<std::optional<std::vector<std::int64_t>>> parse_rank_list(std::string_view text) {
  constexpr std::size_t kMostRanks = 10'000;
  const auto refuse = [&] {
    return fail(Errc::kUsage,
                "--rank: '{}' is not a list of at most {} ranks; write 2, or 0,4-7, or all",
                printable(text), kMostRanks);
  };
  if (text == "all") return std::optional<std::vector<std::int64_t>>();
  std::vector<std::int64_t> ranks;
  for (const std::string_view part : split(text, ',')) {
    const auto hyphen = part.find('-');
    const auto first = parse_int(part.substr(0, hyphen));
    const auto last = hyphen == std::string_view::npos ? first : parse_int(part.substr(hyphen + 1));
    if (!first || !last || *first < 0 || *last < *first) return refuse();
    if (static_cast<std::uint64_t>(*last - *first) + 1 + ranks.size() > kMostRanks) return refuse();
    for (std::int64_t rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return std::optional(std::move(ranks));
}

Result<std::vector<std::int64_t>> ranks_with_log(const IndexEntry& run,
                                                 std::optional<std::int64_t> attempt,
                                                 const std::string& component) {
  if (component.empty()) DLRUN_TRY(require_no_components(run));
  DLRUN_TRY_ASSIGN(const auto facts, RunInspector::read_facts(run.path));
  const auto folder =
      rank_log(run.path, attempt.value_or(facts.record.attempt), 0, component).parent_path();
  std::vector<std::int64_t> ranks;
  std::error_code error;
  for (std::filesystem::directory_iterator files(folder, error);
       !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    const std::string name = files->path().filename().string();
    constexpr std::string_view kStart = "rank-", kEnd = ".log";
    if (!name.starts_with(kStart) || !name.ends_with(kEnd)) continue;
    const auto rank = parse_int(
        std::string_view(name).substr(kStart.size(), name.size() - kStart.size() - kEnd.size()));
    if (rank && *rank >= 0) ranks.push_back(*rank);
  }
  if (ranks.empty())
    return fail(Errc::kNotFound, "{}: no rank{} has a log in attempt {}{}", run.id,
                component.empty() ? "" : fmt::format(" of component '{}'", printable(component)),
                attempt.value_or(facts.record.attempt), hint_on_deletion(facts.record, {}));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Result<ChosenRanks> parse_chosen_ranks(const std::string& list,
                                       const std::optional<std::int64_t>& attempt,
                                       const std::string& component) {
  if (attempt && list.empty())
    return fail(Errc::kUsage,
                "--attempt chooses among a rank's logs: give --rank too; the job's own log holds "
                "all attempts");
  if (!component.empty() && list.empty())
    return fail(Errc::kUsage,
                "--component chooses among the ranks' logs: give --rank too, such as --rank 0");
  if (component.find('/') != std::string::npos || component.starts_with('.'))
    return fail(Errc::kUsage, "--component '{}' is not the name of a component",
                printable(component));
  if (list.empty()) return ChosenRanks{};
  DLRUN_TRY_ASSIGN(auto ranks, parse_rank_list(list));
  if (!ranks) return ChosenRanks{/*is_all=*/true, {}};
  return ChosenRanks{/*is_all=*/false, std::move(*ranks)};
}

std::string label_of_rank(std::int64_t rank) {
  return fmt::format("rank {}: ", rank);
}

}  // namespace dlrun
