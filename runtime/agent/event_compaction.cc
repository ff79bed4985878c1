// Reads the record twice: the first pass finds the lines to keep, the second pass copies them.
#include "runtime/agent/event_compaction.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/json_lines.h"
#include "common/run_events.h"
#include "common/untrusted_file.h"

namespace dlrun::agent {
namespace {

// The kept lines of `progress`, `samples` and remarks together take about 15 MiB, half of the size
// at which the next compaction begins.
constexpr std::int64_t kProgressLinesKept = 16'384;
constexpr std::int64_t kSamplesLinesKept = 8'192;
constexpr std::size_t kRemarksKeptBytes = 4U << 20U;
constexpr std::size_t kWriteBytes = 1U << 20U;

/// Collects facts in the first pass over the file. The second pass asks keeps() for each line.
class Survey {
 public:
  void add_line(std::string_view line, off_t at) {
    const auto kind = kind_of_line(line);
    const auto time = time_ms_of_line(line);
    if (time && !first_time_) first_time_ = time;
    if (time) last_time_ = std::max(last_time_, *time);
    if (importance_of(kind) == EventImportance::kRemark) remark_bytes_ += line.size() + 1;
    if (kind != events::Progress::kKind && kind != events::FinalReports::kKind) return;
    const auto recorded = event_of_line(line);
    if (!recorded) return;
    const Source source(recorded->attempt.value_or(0), recorded->component);
    if (std::holds_alternative<events::FinalReports>(recorded->event)) last_result_[source] = at;
    const auto* progress = std::get_if<events::Progress>(&recorded->event);
    if (progress == nullptr) return;
    auto& offsets = progress_[source];
    if (!offsets.first) offsets.first = at;
    offsets.last = at;
    const auto step = progress->reached();
    if (step && (!offsets.furthest_step || *step > *offsets.furthest_step)) {
      offsets.furthest_step = step;
      offsets.furthest = at;
    }
  }

  /// Ends the first pass. Must be called before keeps().
  void finish() {
    for (const auto& [source, at] : last_result_) wanted_.insert(at);
    for (const auto& [source, offsets] : progress_)
      wanted_.insert({offsets.first.value_or(0), offsets.last, offsets.furthest});
  }

  /// Returns true if the line stays. Must be called for each line, in the order of the file.
  [[nodiscard]] bool keeps(std::string_view line, off_t at) {
    const auto kind = kind_of_line(line);
    switch (importance_of(kind)) {
      case EventImportance::kEssential:
        return kind != events::FinalReports::kKind || wanted_.contains(at);
      case EventImportance::kRemark:
        seen_remark_bytes_ += line.size() + 1;
        return remark_bytes_ - seen_remark_bytes_ < kRemarksKeptBytes;
      case EventImportance::kDroppable: {
        const bool is_progress = kind == events::Progress::kKind;
        auto& last_slot = is_progress ? progress_slot_ : samples_slot_;
        const auto slot = slot_of(line, is_progress ? kProgressLinesKept : kSamplesLinesKept);
        const bool is_new = slot != last_slot;
        last_slot = slot;
        return is_new || wanted_.contains(at);
      }
    }
    return true;
  }

 private:
  /// An attempt and a component. Each component reports its own progress and result.
  using Source = std::pair<std::int64_t, std::string>;
  /// The lines of `progress` that stay, by their offsets in the file.
  struct ProgressOffsets {
    std::optional<off_t> first;
    off_t last = 0, furthest = 0;
    std::optional<std::int64_t> furthest_step;
  };

  /// Returns the index of the line's time slot, one of `slots` equal parts of the record's time.
  [[nodiscard]] std::int64_t slot_of(std::string_view line, std::int64_t slots) const {
    const std::int64_t begin = first_time_.value_or(0);
    const std::int64_t length = std::max<std::int64_t>(last_time_ - begin, 0) / slots + 1;
    return (time_ms_of_line(line).value_or(begin) - begin) / length;
  }

  std::optional<std::int64_t> first_time_;
  std::int64_t last_time_ = 0, progress_slot_ = -1, samples_slot_ = -1;
  std::size_t remark_bytes_ = 0, seen_remark_bytes_ = 0;
  std::map<Source, off_t> last_result_;
  std::map<Source, ProgressOffsets> progress_;
  std::set<off_t> wanted_;
};

Result<> copy_kept(int from, off_t size, Survey& survey, int to) {
  LineReader lines(from, 0, size);
  std::string block;
  while (const auto line = lines.next()) {
    if (!survey.keeps(*line, lines.line_begin()) || !has_valid_checksum(*line)) continue;
    block.append(*line).push_back('\n');
    if (block.size() < kWriteBytes) continue;
    DLRUN_TRY(write_all(to, block));
    block.clear();
  }
  return write_all(to, block);
}

}  // namespace

Result<BackgroundFile::Renewed> compact_events(const std::filesystem::path& path) {
  DLRUN_TRY_ASSIGN(const auto old, open_untrusted(path, Links::kRefuse));
  struct stat info {};
  if (::fstat(old.get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));
  Survey survey;
  LineReader lines(old.get(), 0, info.st_size);
  while (const auto line = lines.next()) survey.add_line(*line, lines.line_begin());
  survey.finish();

  // The name is fixed, so that the next compaction replaces a file that a killed one left behind.
  const auto temporary = path.parent_path() / ("." + path.filename().string() + ".compacting");
  const auto failed = [&](std::string_view why) {
    ::unlink(temporary.c_str());
    return fail(Errc::kIo, "{}: cannot be made smaller: {}", path.string(), why);
  };
  if (::unlink(temporary.c_str()) != 0 && errno != ENOENT) return failed(errno_text(errno));
  UniqueFd file(::open(temporary.c_str(),
                       O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return failed(errno_text(errno));
  if (auto copied = copy_kept(old.get(), info.st_size, survey, file.get()); !copied)
    return failed(copied.error().message);
  if (::fsync(file.get()) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0)
    return failed(errno_text(errno));
  // From here on the old file has no name, so the new one must be used even if the next steps fail.
  BackgroundFile::Renewed renewed{std::move(file), std::nullopt};
  if (auto synced = sync_directory(path.parent_path()); !synced)
    renewed.sync_error = std::move(synced.error());
  return renewed;
}

}  // namespace dlrun::agent
