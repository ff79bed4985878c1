#include "launcher/runs/summaries.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/files.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

constexpr std::string_view kHead = "dlrun summaries 1\n";
constexpr std::size_t kLargestFile = 64U << 20U;

std::string stamp_of(const struct stat& events) {
  return fmt::format("{} {} {}.{:09}", events.st_ino, events.st_size, events.st_mtim.tv_sec,
                     events.st_mtim.tv_nsec);
}

/// Removes the text before the next tab from the front of line, or all of it, and returns it.
std::string_view take_field(std::string_view& line) {
  const auto end = std::min(line.find('\t'), line.size());
  const auto field = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return field;
}

}  // namespace

RunSummaries RunSummaries::beside(const RunIndex& index) {
  RunSummaries summaries(index.directory() / ".summaries");
  struct stat info {};
  const auto file = open_untrusted(summaries.file_, Links::kRefuse);
  if (!file || ::fstat(file->get(), &info) != 0 || info.st_uid != ::geteuid()) return summaries;
  auto text = read_untrusted(summaries.file_, kLargestFile, Links::kRefuse);
  if (!text || !text->starts_with(kHead)) return summaries;
  summaries.text_ = std::move(*text);
  std::string_view rest = std::string_view(summaries.text_).substr(kHead.size());
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) break;
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    const auto path = take_field(line);
    summaries.known_[path] = line;
  }
  return summaries;
}

std::optional<RunSummaries::Row> RunSummaries::find(const IndexEntry& run,
                                                    const struct stat& events) const {
  const auto found = known_.find(run.path.native());
  if (found == known_.end()) return std::nullopt;
  std::string_view line = found->second;
  if (take_field(line) != stamp_of(events)) return std::nullopt;
  Row row;
  row.job = take_field(line);
  row.state = take_field(line);
  row.matters = take_field(line);
  return row;
}

void RunSummaries::keep(const IndexEntry& run, const struct stat& events, Row row) {
  const auto line =
      fmt::format("{}\t{}\t{}\t{}", stamp_of(events), row.job, row.state, row.matters);
  const std::array<std::string_view, 4> parts{run.path.native(), row.job, row.state, row.matters};
  for (const auto part : parts) {
    if (part.find_first_of("\t\n") != std::string_view::npos) return;
  }
  kept_[run.path.native()] = line;
}

void RunSummaries::save() const {
  if (kept_.empty()) return;
  std::string text(kHead);
  for (const auto& [path, line] : known_) {
    std::error_code gone;
    if (kept_.contains(std::string(path)) || !std::filesystem::exists(path, gone)) continue;
    text.append(path).append(1, '\t').append(line).append(1, '\n');
  }
  for (const auto& [path, line] : kept_)
    text.append(path).append(1, '\t').append(line).append(1, '\n');
  if (text.size() <= kLargestFile) static_cast<void>(write_file_atomic(file_, text));
}

}  // namespace dlrun
