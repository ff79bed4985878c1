#include "launcher/runs/last_words.h"

#include <optional>

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

}  // namespace

std::vector<std::string> last_words(const std::filesystem::path& run, const RunStatus& status) {
  constexpr std::size_t kLines = 3, kTailBytes = 4096, kLineBytes = 200;
  const RunRecord& record = status.facts.record;
  if (!record.ended || record.end_code == 0 || status.sweep) return {};
  std::optional<std::filesystem::path> path;
  if (record.first_failed && record.first_failed->rank >= 0) {
    path = rank_log(run, record.attempt, record.first_failed->rank, record.first_failed->component);
  } else if (record.end_state == EndState::kFailed && record.ranks == 0) {
    path = job_log(run, status.facts);
  }
  if (!path) return {};
  LogReader log(*path, status.facts);
  log.start_at_tail(kLines + 1);  // one of these lines may be a message of dlrun
  const auto text = log.read_more(kTailBytes);
  if (!text) return {};
  std::vector<std::string> lines;
  for (const auto line : split(*text, '\n')) {
    if (!trim(line).empty() && !line.starts_with("dlrun: "))
      lines.push_back(printable(beginning_of(line, kLineBytes)));
  }
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  return lines;
}

}  // namespace dlrun
