#include "launcher/runs/rehearsal.h"

#include <utility>

#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

constexpr const char* kNoteFile = "rehearsal.json";
constexpr std::size_t kNoteLimit = 64U << 10U;

RehearsalState state_of_rehearsal(const RunRecord& record) {
  if (!record.has_events) return RehearsalState::kNotStarted;
  if (!record.ended) return RehearsalState::kRunning;
  if (record.end_state != EndState::kCompleted) return RehearsalState::kFailed;
  return record.attempt_end_reason == EndReason::kRehearsed ? RehearsalState::kPassed
                                                            : RehearsalState::kEndedByItself;
}

/// Returns the mean seconds of a step from the second report with a new step to the last one;
/// nullopt if there are fewer than three such reports. The first steps are slower, because the
/// program loads data and compiles. Evaluations and checkpoints between these reports count as time
/// of steps.
std::optional<double> mean_seconds_per_step(const std::vector<ProgressPoint>& progress) {
  std::vector<const ProgressPoint*> reports;
  for (const ProgressPoint& point : progress) {
    if (point.step && (reports.empty() || *point.step > *reports.back()->step))
      reports.push_back(&point);
  }
  if (reports.size() < 3) return std::nullopt;
  const ProgressPoint &first = *reports[1], &last = *reports.back();
  const auto steps = static_cast<double>(*last.step - *first.step);
  if (steps <= 0 || last.t <= first.t) return std::nullopt;
  return (last.t - first.t) / steps;
}

void take_larger(std::optional<double>& most, std::optional<double> value) {
  if (value && (!most || *value > *most)) most = value;
}

}  // namespace

Result<> write_rehearsal_note(const std::filesystem::path& run, const RehearsalNote& note) {
  nlohmann::ordered_json json;
  json["run"] = note.id;
  const auto add = [&](const char* key, std::optional<std::int64_t> value) {
    if (value) json[key] = *value;
  };
  add("ranks_per_node", note.ranks_per_node);
  add("mem_mib", note.mem_mib);
  add("time_s", note.time_s);
  return write_file_atomic(run / kNoteFile, json_read::dump(json) + "\n");
}

Result<std::optional<RehearsalNote>> read_rehearsal_note(const std::filesystem::path& run) {
  const auto path = run / kNoteFile;
  const auto text = read_untrusted(path, kNoteLimit, Links::kRefuse);
  if (!text && text.error().code == Errc::kNotFound) return std::optional<RehearsalNote>();
  if (!text) return tl::unexpected(text.error());
  const auto json = json_read::object_of(*text);
  RehearsalNote note;
  if (json) note.id = json_read::text(*json, "run");
  if (note.id.empty() || note.id.starts_with('.') || note.id.find('/') != std::string::npos)
    return fail(Errc::kInvalid, "{}: is damaged: it does not name a run of this runs folder",
                printable(path.string()));
  const auto get = [&](const char* key) {
    const auto value = json_read::integer(*json, key);
    return value && *value > 0 ? value : std::nullopt;
  };
  note.ranks_per_node = get("ranks_per_node");
  note.mem_mib = get("mem_mib");
  note.time_s = get("time_s");
  return std::optional(std::move(note));
}

RehearsalFigures rehearsal_figures(const RunHistory& history,
                                   const std::optional<RankSnapshot>& ranks) {
  RehearsalFigures figures;
  figures.state = state_of_rehearsal(history.record());
  if (figures.state == RehearsalState::kFailed) figures.failure = history.record().end_message;
  for (const SamplesPoint& point : history.samples()) {
    if (point.rss_bytes) take_larger(figures.rss_bytes, point.rss_bytes->most);
    if (point.gpu_used_bytes) take_larger(figures.gpu_used_bytes, point.gpu_used_bytes->most);
  }
  if (ranks) {
    for (const RankSample& row : ranks->rows) {
      take_larger(figures.rss_bytes, row.rss_bytes);
      take_larger(figures.gpu_used_bytes, row.gpu_used_bytes);
      take_larger(figures.gpu_total_bytes, row.gpu_total_bytes);
    }
  }
  figures.seconds_per_step = mean_seconds_per_step(history.progress());
  if (history.record().progress) figures.total_steps = history.record().progress->steps;
  return figures;
}

Result<std::optional<Rehearsal>> read_rehearsal(const std::filesystem::path& run) {
  DLRUN_TRY_ASSIGN(auto note, read_rehearsal_note(run));
  if (!note) return std::optional<Rehearsal>();
  const auto path = run.parent_path() / note->id;
  RunHistory history;
  for (;;) {
    DLRUN_TRY_ASSIGN(const bool is_more, history.read_more(path));
    if (!is_more) break;
  }
  const auto ranks = read_ranks(path);
  return std::optional(
      Rehearsal{std::move(*note), rehearsal_figures(history, ranks ? *ranks : std::nullopt)});
}

}  // namespace dlrun
