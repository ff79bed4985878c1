#include "launcher/runs/last_words.h"

#include <optional>
#include <string_view>

#include "common/text.h"
#include "launcher/runs/log_file.h"

namespace dlrun {
namespace {

/// Returns the first bytes of a line without cutting a UTF-8 character.
std::string_view beginning_of(std::string_view line, std::size_t bytes) {
  if (line.size() <= bytes) return line;
  while (bytes > 0 && (static_cast<unsigned char>(line[bytes]) & 0xc0U) == 0x80U) --bytes;
  return line.substr(0, bytes);
}

/// Returns the logs that may show why the run failed, the best one first: that of the first rank
/// that failed, or those of a job script that started no rank.
std::vector<std::filesystem::path> logs_of_failure(const std::filesystem::path& run,
                                                   const RunFacts& facts) {
  const RunRecord& record = facts.record;
  if (record.first_failed && record.first_failed->rank >= 0) {
    return {
        rank_log(run, record.attempt, record.first_failed->rank, record.first_failed->component)};
  }
  std::vector<std::filesystem::path> logs;
  if (!(record.end_state == EndState::kFailed) || record.ranks != 0) return logs;
  for (const auto& log : {error_log(run, facts), job_log(run, facts)}) {
    if (log) logs.push_back(*log);
  }
  return logs;
}

/// Returns true for a message of dlrun that tells the user nothing new. If lead has started an
/// attempt, every line that begins with "dlrun: " is such a message. Otherwise the job script may
/// have written such a line as the reason for the end, so only a copy of the end's message counts.
bool is_known_message(std::string_view line, const RunRecord& record) {
  constexpr std::string_view kPrefix = "dlrun: ";
  if (!line.starts_with(kPrefix)) return false;
  return !record.attempt_end_reason.empty() || line.substr(kPrefix.size()) == record.end_message;
}

std::vector<std::string> last_lines(const std::filesystem::path& path, const RunFacts& facts) {
  constexpr std::size_t kLines = 3, kTailBytes = 4096, kLineBytes = 200;
  LogReader log(path, facts);
  log.start_at_tail(kLines + 1);  // one of these lines may be a message of dlrun
  const auto text = log.read_more(kTailBytes);
  if (!text) return {};
  std::vector<std::string> lines;
  for (const auto line : split(*text, '\n')) {
    if (!trim(line).empty() && !is_known_message(line, facts.record))
      lines.push_back(printable(beginning_of(line, kLineBytes)));
  }
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  return lines;
}

}  // namespace

std::vector<std::string> last_words(const std::filesystem::path& run, const RunStatus& status) {
  const RunRecord& record = status.facts.record;
  if (!record.ended || record.end_code == 0 || status.sweep) return {};
  for (const auto& log : logs_of_failure(run, status.facts)) {
    if (auto lines = last_lines(log, status.facts); !lines.empty()) return lines;
  }
  return {};
}

}  // namespace dlrun
