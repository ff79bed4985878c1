#include "runtime/agent/stop_early.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "common/bounded_json.h"
#include "common/file_and_owner.h"
#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

/// The best values so far of the point, one BestSoFar a line; not the reports themselves.
constexpr const char* kTrajectoryFile = "reports.jsonl";
constexpr std::size_t kTrajectoryFileLimitBytes = 1U << 20U;
constexpr milliseconds kCompareEvery{3000};
/// Added to kCompareEvery for each other point. It limits the load of a large sweep on the file
/// system.
constexpr milliseconds kPausePerPoint{20};
/// The longest time for which ~StopEarly() waits until the last reports are written. The leads of
/// other points need these reports.
constexpr milliseconds kLastWriteLimit{1000};

[[nodiscard]] double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

[[nodiscard]] bool is_better(const StopRule& rule, double a, double b) {
  return rule.is_smaller_better ? a < b : a > b;
}

[[nodiscard]] std::string line_of(const BestSoFar& entry) {
  return json_read::dump(Json{{"at", entry.at}, {"value", entry.value}}) + "\n";
}

/// Returns the folders of the sweep's other points. Each of them is SWEEP/array-K/T.
[[nodiscard]] std::vector<std::filesystem::path> other_points(const std::filesystem::path& run) {
  std::vector<std::filesystem::path> points;
  std::error_code error;
  const auto array = run.parent_path();
  if (!array.filename().string().starts_with("array-")) return points;
  for (auto folder = std::filesystem::directory_iterator(array.parent_path(), error);
       !error && folder != std::filesystem::directory_iterator(); folder.increment(error)) {
    if (!folder->path().filename().string().starts_with("array-")) continue;
    std::error_code inner;
    for (auto point = std::filesystem::directory_iterator(folder->path(), inner);
         !inner && point != std::filesystem::directory_iterator(); point.increment(inner)) {
      if (parse_int(point->path().filename().string()) && point->path() != run)
        points.push_back(point->path());
    }
  }
  return points;
}

[[nodiscard]] std::vector<Trajectory> trajectories(
    const std::vector<std::filesystem::path>& points) {
  std::vector<Trajectory> found;
  for (const auto& point : points) {
    const auto file =
        read_file_and_owner(point / kTrajectoryFile, kTrajectoryFileLimitBytes, Links::kRefuse);
    if (file && file->owner == ::geteuid()) found.push_back(read_trajectory(file->text));
  }
  return found;
}

}  // namespace

Result<StopRule> parse_stop_rule(std::string_view text) {
  StopRule rule;
  const auto colon = text.find(':');
  const auto goal = text.substr(0, colon);
  if (colon == std::string_view::npos || colon + 1 == text.size() ||
      (goal != "min" && goal != "max"))
    return fail(Errc::kUsage, "--stop-early '{}' is not min:NAME or max:NAME",
                printable(text.substr(0, 80)));
  rule.metric = text.substr(colon + 1);
  rule.is_smaller_better = goal == "min";
  return rule;
}

std::optional<MetricReport> read_report(const StopRule& rule, const Json& body) {
  if (!body.is_object()) return std::nullopt;
  const auto value = json_read::number(body, rule.metric.c_str());
  const auto epoch = json_read::integer(body, "epoch");
  const auto at = epoch ? epoch : json_read::integer(body, "step");
  if (!value || !std::isfinite(*value) || !at || *at < 0) return std::nullopt;
  return MetricReport{*at, *value, !epoch};
}

bool add_report(const StopRule& rule, Trajectory& trajectory, const MetricReport& report) {
  BestSoFar entry{report.at, report.value, report.is_at_step};
  if (trajectory.empty()) {
    trajectory.push_back(entry);
    return true;
  }
  BestSoFar& last = trajectory.back();
  const double best = last.best_with_skipped.value_or(last.value);
  if (is_better(rule, best, entry.value)) entry.value = best;
  if (report.at < last.at + std::max<std::int64_t>(1, last.at / 100)) {
    last.best_with_skipped = entry.value;
    return false;
  }
  trajectory.push_back(entry);
  return true;
}

std::optional<std::string> why_stop(const StopRule& rule, const Trajectory& own,
                                    const std::vector<Trajectory>& others) {
  if (own.empty() || own.back().at < rule.after) return std::nullopt;
  const BestSoFar& best = own.back();
  std::vector<double> values;
  for (const Trajectory& other : others) {
    if (other.empty() || other.back().at < best.at) continue;
    const auto next =
        std::upper_bound(other.begin(), other.end(), best.at,
                         [](std::int64_t at, const BestSoFar& entry) { return at < entry.at; });
    if (next != other.begin()) values.push_back(std::prev(next)->value);
  }
  if (values.size() < kLeastOthers) return std::nullopt;
  const std::size_t count = values.size();
  const double others_median = median(std::move(values));
  if (!is_better(rule, others_median, best.value)) return std::nullopt;
  return fmt::format(
      "stopped early: the best {} at {} {} is {:.6g}, and the median of {} other points is {:.6g} "
      "(sweep.stop_early)",
      printable(rule.metric), best.is_at_step ? "step" : "epoch", best.at, best.value, count,
      others_median);
}

Trajectory read_trajectory(std::string_view text) {
  Trajectory trajectory;
  for (const auto line : split(text, '\n')) {
    const auto json = json_read::object_of(line);
    const auto at = json ? json_read::integer(*json, "at") : std::nullopt;
    const auto value = json ? json_read::number(*json, "value") : std::nullopt;
    if (!at || !value || (!trajectory.empty() && *at <= trajectory.back().at)) continue;
    trajectory.push_back({*at, *value});
  }
  return trajectory;
}

// The StopEarly and its thread share this state. A read that hangs may keep the thread alive longer
// than the StopEarly.
struct StopEarly::Shared {
  StopRule rule;
  std::filesystem::path run;
  std::mutex mutex;
  std::condition_variable changed;
  Trajectory own;                      // guarded by mutex
  std::string unwritten;               // guarded by mutex
  std::optional<std::string> verdict;  // guarded by mutex
  bool is_closing = false;             // guarded by mutex
  bool is_over = false;                // guarded by mutex; true once the last reports are written

  void write(const std::string& lines) const {
    const UniqueFd fd(::open((run / kTrajectoryFile).c_str(),
                             O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd.is_open()) std::ignore = write_all(fd.get(), lines);
  }

  void write_and_compare_until_closed() {
    std::unique_lock lock(mutex);
    while (!is_closing) {
      const std::string lines = std::exchange(unwritten, {});
      const Trajectory mine = own;
      lock.unlock();
      if (!lines.empty()) write(lines);
      const auto points = other_points(run);
      auto why = mine.empty() ? std::nullopt : why_stop(rule, mine, trajectories(points));
      lock.lock();
      if (why && !verdict) verdict = std::move(why);
      changed.wait_for(lock, kCompareEvery + kPausePerPoint * points.size(),
                       [&] { return is_closing; });
    }
    const std::string rest = std::exchange(unwritten, {});
    lock.unlock();
    if (!rest.empty()) write(rest);
    lock.lock();
    is_over = true;
    changed.notify_all();
  }
};

StopEarly::StopEarly(StopRule rule, std::filesystem::path run)
    : shared_(std::make_shared<Shared>()) {
  shared_->rule = std::move(rule);
  shared_->run = std::move(run);
  std::thread([shared = shared_] { shared->write_and_compare_until_closed(); }).detach();
}

StopEarly::~StopEarly() {
  std::unique_lock lock(shared_->mutex);
  shared_->is_closing = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, kLastWriteLimit, [&] { return shared_->is_over; });
}

void StopEarly::on_progress(const Json& body) {
  const auto report = read_report(shared_->rule, body);
  if (!report) return;
  const std::lock_guard lock(shared_->mutex);
  if (add_report(shared_->rule, shared_->own, *report))
    shared_->unwritten += line_of(shared_->own.back());
}

std::optional<std::string> StopEarly::take_verdict() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->verdict, std::nullopt);
}

}  // namespace dlrun::agent
