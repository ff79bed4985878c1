#include "launcher/runs/rehearsal.h"

#include <algorithm>

#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/units.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

constexpr const char* kNoteFile = "rehearsal.json";
constexpr std::size_t kNoteLimit = 64U << 10U;
constexpr double kMebi = 1 << 20;

std::string state_of_rehearsal(const RunRecord& record) {
  if (!record.has_events) return "it has not started";
  if (!record.ended) return "it runs";
  if (record.end_state == EndState::kCompleted)
    return record.attempt_reason == EndReason::kRehearsed ? "passed"
                                                          : "passed; the program ended by itself";
  return "failed: " + record.end_message;
}

/// Returns the mean seconds of a step from the second report with a new step to the last one;
/// nullopt if there are fewer than three such reports. The first steps are slower, because the
/// program loads data and compiles. Evaluations and checkpoints between these reports count as time
/// of steps.
std::optional<double> step_seconds(const std::vector<ProgressPoint>& progress) {
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

std::string memory_sentence(const RehearsalNote& note, double rss_bytes) {
  std::string text = fmt::format("at most {} for a rank", memory_figure(rss_bytes));
  if (!note.ranks_per_node) return text;
  const double of_node = rss_bytes * static_cast<double>(*note.ranks_per_node);
  text += fmt::format(", so about {} for the {} rank{} of a node", memory_figure(of_node),
                      *note.ranks_per_node, *note.ranks_per_node == 1 ? "" : "s");
  if (!note.mem_mib) return text;
  const double requested = static_cast<double>(*note.mem_mib) * kMebi;
  return text + fmt::format("; the job requests {}{}", memory_figure(requested),
                            of_node > requested ? ", which is too little" : "");
}

std::string time_sentence(const RehearsalNote& note, const RehearsalFigures& figures) {
  if (!figures.seconds_per_step)
    return "unknown: the program made fewer than three reports with a new step (docs/restarts.md)";
  std::string text = fmt::format("{} for a step", step_time_text(*figures.seconds_per_step));
  if (!figures.steps) return text + "; the program does not report how many steps it will do";
  const double all = *figures.seconds_per_step * static_cast<double>(*figures.steps);
  text += fmt::format(", so at least {} for {} steps", duration_text(all), *figures.steps);
  if (!note.time_s) return text;
  const auto limit = static_cast<double>(*note.time_s);
  return text + fmt::format("; the time limit is {}{}", duration_text(limit),
                            all > limit ? ", which is too short for one job" : "");
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
  figures.seconds_per_step = step_seconds(history.progress());
  if (history.record().progress) figures.steps = history.record().progress->steps;
  return figures;
}

std::vector<std::pair<std::string, std::string>> predictions(const RehearsalNote& note,
                                                             const RehearsalFigures& figures) {
  std::vector<std::pair<std::string, std::string>> lines;
  lines.emplace_back("rehearsal", fmt::format("{}: {}", note.id, figures.state));
  if (figures.rss_bytes) lines.emplace_back("memory", memory_sentence(note, *figures.rss_bytes));
  if (figures.gpu_used_bytes)
    lines.emplace_back(
        "GPU",
        fmt::format("memory at most {}{} for a rank", memory_figure(*figures.gpu_used_bytes),
                    figures.gpu_total_bytes ? " of " + memory_figure(*figures.gpu_total_bytes)
                                            : std::string()));
  if (figures.rss_bytes || figures.seconds_per_step)
    lines.emplace_back("time", time_sentence(note, figures));
  return lines;
}

std::vector<std::pair<std::string, std::string>> predictions_for(const std::filesystem::path& run) {
  const auto failed = [](const Error& error) {
    return std::vector<std::pair<std::string, std::string>>{{"rehearsal", error.message}};
  };
  const auto note = read_rehearsal_note(run);
  if (!note) return failed(note.error());
  if (!*note) return {};
  const auto rehearsal = run.parent_path() / (*note)->id;
  RunHistory history;
  for (;;) {
    const auto more = history.read_more(rehearsal);
    if (!more) return failed(more.error());
    if (!*more) break;
  }
  const auto ranks = read_ranks(rehearsal);
  return predictions(**note, rehearsal_figures(history, ranks ? *ranks : std::nullopt));
}

}  // namespace dlrun
