#include "launcher/runs/summary_cache.h"

#include <array>

#include "common/text.h"
#include "launcher/runs/cache_lines.h"

namespace dlrun {
namespace {

constexpr std::string_view kSummariesHead = "dlrun summaries 2\n";

std::string stamp_of(const struct stat& events) {
  return fmt::format("{} {} {}.{:09}", events.st_ino, events.st_size, events.st_mtim.tv_sec,
                     events.st_mtim.tv_nsec);
}

}  // namespace

SummaryCache SummaryCache::in(const RunIndex& index) {
  SummaryCache cache(index.directory() / ".summaries");
  cache.text_ = read_own_cache(cache.file_, kSummariesHead);
  for_each_line(cache.text_, kSummariesHead,
                [&](std::string_view path, std::string_view line) { cache.known_[path] = line; });
  return cache;
}

std::optional<SummaryCache::Row> SummaryCache::find(const IndexEntry& run,
                                                    const struct stat& events) const {
  const auto found = known_.find(run.path.native());
  if (found == known_.end()) return std::nullopt;
  std::string_view line = found->second;
  if (take_field(line) != stamp_of(events)) return std::nullopt;
  Row row;
  row.job = take_field(line);
  const auto state = run_state_of(take_field(line));
  if (!state) return std::nullopt;
  row.state = *state;
  row.summary = take_field(line);
  return row;
}

void SummaryCache::add(const IndexEntry& run, const struct stat& events, Row row) {
  const auto line =
      fmt::format("{}\t{}\t{}\t{}", stamp_of(events), row.job, word(row.state), row.summary);
  const std::array<std::string_view, 3> texts{run.path.native(), row.job, row.summary};
  if (!have_no_separators(texts)) return;
  added_[run.path.native()] = line;
}

void SummaryCache::save() const {
  if (added_.empty()) return;
  std::string text(kSummariesHead);
  for (const auto& [path, line] : known_) {
    std::error_code ignored;
    if (added_.contains(std::string(path)) || !std::filesystem::exists(path, ignored)) continue;
    text.append(path).append(1, '\t').append(line).append(1, '\n');
  }
  for (const auto& [path, line] : added_)
    text.append(path).append(1, '\t').append(line).append(1, '\n');
  write_own_cache(file_, text);
}

}  // namespace dlrun
