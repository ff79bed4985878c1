#include "launcher/view/overview_text.h"

#include <algorithm>
#include <ctime>
#include <functional>

#include "common/text.h"
#include "common/units.h"

namespace dlrun {
namespace {

std::string spread_text(const Spread& spread, const std::function<std::string(double)>& show) {
  const std::string least = show(spread.least), mean = show(spread.mean), most = show(spread.most);
  return least == most ? mean : fmt::format("{} (least {}, most {})", mean, least, most);
}

/// Returns a number for sorting points by state, the most important state first: running (0),
/// failed, pending, others, completed.
int display_order(RunState state) {
  switch (state) {
    case RunState::kRunning:
      return 0;
    case RunState::kFailed:
    case RunState::kTimeout:
    case RunState::kRefused:
      return 1;
    case RunState::kPending:
      return 2;
    case RunState::kCompleted:
      return 4;
    default:
      return 3;
  }
}

}  // namespace

std::string ranks_and_time_text(const RunOverview& overview) {
  const RunRecord& record = overview.status.facts.record;
  std::vector<std::string> parts;
  if (record.ranks > 0)
    parts.push_back(fmt::format("{} rank{}", record.ranks, record.ranks == 1 ? "" : "s"));
  if (!record.hosts.empty()) parts.push_back("on " + printable(record.hosts));
  if (!overview.history.attempts().empty()) {
    const AttemptHistory& attempt = overview.history.attempts().back();
    const auto end = attempt.ended                        ? *attempt.ended
                     : is_inactive(overview.status.state) ? attempt.begun
                                                          : overview.now;
    if (end > attempt.begun)
      parts.push_back(
          fmt::format("{} {}", attempt.ended ? "took" : "for", duration_text(end - attempt.begun)));
  }
  return join(parts, " ");
}

std::optional<std::int64_t> newest_step(const RunOverview& overview) {
  const RunRecord& record = overview.status.facts.record;
  const auto& reports = overview.history.progress();
  if (reports.empty() || reports.back().attempt != record.attempt || !record.progress ||
      !record.progress->step)
    return std::nullopt;
  std::int64_t step = *record.progress->step;
  if (!overview.ranks || overview.ranks->attempt != record.attempt) return step;
  for (const RankSample& row : overview.ranks->rows) {
    if (row.rank == 0 && row.step) step = std::max(step, *row.step);
  }
  return step;
}

std::optional<Progress> shown_progress(const RunOverview& overview) {
  auto progress = overview.status.facts.record.progress;
  if (!progress) return std::nullopt;
  if (const auto step = newest_step(overview)) progress->step = step;
  if (overview.status.state == RunState::kCompleted) {
    if (progress->steps) progress->step = progress->steps;
    if (progress->epochs) progress->epoch = progress->epochs;
  }
  return progress;
}

std::optional<double> fraction_done(const Progress& progress) {
  if (progress.step && progress.steps && *progress.steps > 0)
    return std::clamp(static_cast<double>(*progress.step) / static_cast<double>(*progress.steps),
                      0.0, 1.0);
  if (progress.epoch && progress.epochs && *progress.epochs > 0)
    return std::clamp(
        static_cast<double>(*progress.epoch - 1) / static_cast<double>(*progress.epochs), 0.0, 1.0);
  return std::nullopt;
}

std::string steps_text(const Progress& progress) {
  std::string text;
  if (progress.step)
    text += progress.steps ? fmt::format("  step {}/{}", *progress.step, *progress.steps)
                           : fmt::format("  step {}", *progress.step);
  if (progress.epoch)
    text += progress.epochs ? fmt::format("  epoch {}/{}", *progress.epoch, *progress.epochs)
                            : fmt::format("  epoch {}", *progress.epoch);
  return text;
}

std::string time_left_text(const RunOverview& overview, const Progress& progress) {
  if (is_inactive(overview.status.state) || !progress.steps) return "";
  const auto left = seconds_until_steps(overview.history, *progress.steps, overview.now);
  return left ? duration_text(*left) : "";
}

std::vector<double> reported_values(const RunHistory& history,
                                    std::optional<double> ProgressPoint::*field) {
  std::vector<double> values;
  for (const ProgressPoint& point : history.progress()) {
    if (point.attempt == history.progress().back().attempt && point.*field)
      values.push_back(*(point.*field));
  }
  return values;
}

LabelledLines resource_lines(const RunOverview& overview) {
  const auto& samples = overview.history.samples();
  if (samples.empty() || samples.back().attempt != overview.status.facts.record.attempt) return {};
  const SamplesPoint& point = samples.back();
  LabelledLines lines;
  const auto add = [&](const char* label, const std::optional<Spread>& spread,
                       const std::function<std::string(double)>& show) {
    if (spread) lines.push_back({label, spread_text(*spread, show)});
  };
  add("cores", point.cpu, cores_text);
  add("memory", point.rss_bytes, memory_text);
  add("GPU", point.gpu, whole_percent_text);
  add("GPU memory", point.gpu_used_bytes, memory_text);
  if (point.gpu_watts) lines.push_back({"GPU power", power_text(*point.gpu_watts)});
  return lines;
}

EndedPoints count_ended_points(const SweepCounts& counts) {
  const std::size_t ended = counts.completed + counts.unsuccessful() + counts.cancelled;
  return {counts.points > 0 ? static_cast<double>(ended) / static_cast<double>(counts.points) : 0,
          fmt::format("{} of {} points are over", ended, counts.points)};
}

std::vector<const PointOverview*> shown_points(const std::vector<PointOverview>& points,
                                               std::size_t most) {
  std::vector<const PointOverview*> shown;
  for (const PointOverview& point : points) shown.push_back(&point);
  if (shown.size() <= most) return shown;
  std::stable_sort(shown.begin(), shown.end(), [](const PointOverview* a, const PointOverview* b) {
    return display_order(a->state) < display_order(b->state);
  });
  shown.resize(most);
  std::sort(shown.begin(), shown.end(),
            [](const PointOverview* a, const PointOverview* b) { return a->number < b->number; });
  return shown;
}

std::string clock_text(double t) {
  const auto whole = static_cast<std::time_t>(t);
  std::tm parts{};
  ::localtime_r(&whole, &parts);
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace dlrun
