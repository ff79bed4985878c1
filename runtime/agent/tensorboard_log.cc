#include "runtime/agent/tensorboard_log.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "runtime/agent/progress_recorder.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kMostScalars = 64, kLongestTag = 64;
constexpr std::size_t kScalarQueueBytes = 1U << 20U;

double seconds_of(std::chrono::system_clock::time_point wall) {
  return std::chrono::duration<double>(wall.time_since_epoch()).count();
}

std::string tag_of(std::string_view name) {
  std::string tag(name.substr(0, kLongestTag));
  for (char& c : tag) {
    const bool fits = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '.' || c == '/';
    if (!fits) c = '_';
  }
  return tag.empty() ? "_" : tag;
}

}  // namespace

std::optional<std::int64_t> place_of(const Json& report) {
  if (!report.is_object()) return std::nullopt;
  for (const char* name : {"step", "epoch"}) {
    const auto found = report.find(name);
    if (found != report.end() && found->is_number_integer() && found->get<std::int64_t>() >= 0)
      return found->get<std::int64_t>();
  }
  return std::nullopt;
}

std::vector<Scalar> scalars_of(const Json& report) {
  constexpr std::array<std::string_view, 3> kNoValues{"step", "steps", "epochs"};
  std::vector<Scalar> scalars;
  if (!report.is_object()) return scalars;
  for (auto at = report.begin(); at != report.end() && scalars.size() < kMostScalars; ++at) {
    if (!at->is_number() ||
        std::find(kNoValues.begin(), kNoValues.end(), at.key()) != kNoValues.end())
      continue;
    const double value = at->get<double>();
    if (std::isfinite(value)) scalars.push_back({tag_of(at.key()), value});
  }
  return scalars;
}

std::vector<Scalar> scalars_of(const events::RankStatistics& statistics) {
  constexpr double kGibi = 1U << 30U;
  std::vector<Scalar> scalars;
  const auto add = [&](const char* tag, const auto& spread, double unit) {
    if (spread) scalars.push_back({tag, static_cast<double>(spread->mean) / unit});
  };
  add("system/cpu_cores", statistics.cpu, 1);
  add("system/memory_gib", statistics.rss_bytes, kGibi);
  add("system/gpu_percent", statistics.gpu, 1);
  add("system/gpu_memory_gib", statistics.gpu_used_bytes, kGibi);
  return scalars;
}

Result<std::unique_ptr<TensorboardLog>> TensorboardLog::open(
    const std::filesystem::path& run, int attempt, const std::string& host,
    std::chrono::system_clock::time_point wall, Clock::time_point now) {
  const auto folder = run / "tensorboard";
  DLRUN_TRY(make_private_directories(folder));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(wall.time_since_epoch()).count();
  // TensorBoard reads the files of a folder in the order of their names.
  const auto name = fmt::format("events.out.tfevents.{:010}.{}.{}.attempt-{}", seconds, host,
                                ::getpid(), attempt);
  DLRUN_TRY_ASSIGN(auto file, BackgroundFile::open((folder / name).string(), kScalarQueueBytes));
  std::ignore = file->push(version_record(seconds_of(wall)));
  return std::unique_ptr<TensorboardLog>(new TensorboardLog(std::move(file), attempt > 0, now));
}

void TensorboardLog::write(std::vector<Scalar> scalars,
                           std::chrono::system_clock::time_point wall) {
  std::erase_if(scalars, [this](const Scalar& scalar) {
    if (tags_.contains(scalar.tag)) return false;
    if (tags_.size() >= kMostTags) return true;
    tags_.insert(scalar.tag);
    return false;
  });
  if (scalars.empty() || !file_->has_room()) return;
  std::ignore = file_->push(scalars_record(seconds_of(wall), step_.value_or(0), scalars));
}

void TensorboardLog::on_report(const Json& report, std::chrono::system_clock::time_point wall,
                               Clock::time_point now) {
  auto scalars = scalars_of(report);
  if (scalars.empty()) return;
  if (!pace_.takes(ProgressRecorder::is_result(report), now)) return;
  // A final report has no step of its own: it belongs to the last one.
  if (const auto place = place_of(report)) step_ = *place;
  // Without a known step TensorBoard would forget all values of earlier attempts.
  if (step_ && std::exchange(is_restart_, false))
    std::ignore = file_->push(restart_record(seconds_of(wall), *step_));
  write(std::move(scalars), wall);
}

void TensorboardLog::on_statistics(const events::RankStatistics& statistics,
                                   std::chrono::system_clock::time_point wall) {
  // Before the first report the step is unknown, and TensorBoard would draw all values at step 0.
  if (step_) write(scalars_of(statistics), wall);
}

}  // namespace dlrun::agent
