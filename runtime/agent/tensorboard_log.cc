#include "runtime/agent/tensorboard_log.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "runtime/agent/progress_recorder.h"
#include "runtime/agent/progress_values.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kScalarQueueBytes = 1U << 20U;
/// Number of lines that are queued together. Their records take at most 400 KiB, so they fit into
/// the queue if it is less than half full.
constexpr std::size_t kLinesAtOnce = 64;

double seconds_of(std::chrono::system_clock::time_point wall) {
  return std::chrono::duration<double>(wall.time_since_epoch()).count();
}

}  // namespace

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
    std::chrono::system_clock::time_point wall, Clock::time_point now, ValueSource source) {
  const auto folder = run / "tensorboard";
  DLRUN_TRY(make_private_directories(folder));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(wall.time_since_epoch()).count();
  // TensorBoard reads the files of a folder in the order of their names.
  const auto name = fmt::format("events.out.tfevents.{:010}.{}.{}.attempt-{}", seconds, host,
                                ::getpid(), attempt);
  DLRUN_TRY_ASSIGN(auto file, BackgroundFile::open((folder / name).string(), kScalarQueueBytes));
  std::ignore = file->push(version_record(seconds_of(wall)));
  auto log = std::unique_ptr<TensorboardLog>(new TensorboardLog(std::move(file), attempt > 0, now));
  if (source == ValueSource::kMetricsFile)
    log->metrics_ = std::make_unique<MetricsFollower>(run / "metrics.jsonl", attempt);
  return log;
}

void TensorboardLog::begin_step(std::int64_t step, double wall_s) {
  step_ = step;
  // The record waits for the first known step: with step 0, TensorBoard would forget all values of
  // earlier attempts.
  if (std::exchange(owes_restart_record_, false))
    std::ignore = file_->push(restart_record(wall_s, step));
}

void TensorboardLog::push(std::vector<Scalar> scalars, double wall_s) {
  std::erase_if(scalars, [this](const Scalar& scalar) {
    if (tags_.contains(scalar.tag)) return false;
    if (tags_.size() >= kMostTags) return true;
    tags_.insert(scalar.tag);
    return false;
  });
  if (!scalars.empty())
    std::ignore = file_->push(scalars_record(wall_s, step_.value_or(0), scalars));
}

void TensorboardLog::on_report(const Json& report, std::chrono::system_clock::time_point wall,
                               Clock::time_point now) {
  if (metrics_) return;
  auto scalars = scalars_of(report);
  if (scalars.empty()) return;
  if (!pace_.admit(ProgressRecorder::is_result(report), now)) return;
  // A final report may have no step of its own. Its values then belong to the last reported step.
  if (const auto position = step_or_epoch_of(report)) begin_step(*position, seconds_of(wall));
  if (file_->is_less_than_half_full()) push(std::move(scalars), seconds_of(wall));
}

void TensorboardLog::on_statistics(const events::RankStatistics& statistics,
                                   std::chrono::system_clock::time_point wall) {
  // Before the first report the step is unknown, and TensorBoard would draw all values at step 0.
  if (step_ && file_->is_less_than_half_full()) push(scalars_of(statistics), seconds_of(wall));
}

void TensorboardLog::tick() {
  while (metrics_ && file_->is_less_than_half_full()) {
    auto lines = metrics_->take(kLinesAtOnce);
    if (lines.empty()) return;
    for (MetricsLine& line : lines) {
      begin_step(line.step, line.wall_s);
      push(std::move(line.scalars), line.wall_s);
    }
  }
}

bool TensorboardLog::drain(std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  const auto time_left = [&] {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()),
                    std::chrono::milliseconds(0));
  };
  if (metrics_) metrics_->finish();
  while (metrics_ && metrics_->wait(until)) {
    if (!file_->is_less_than_half_full()) std::ignore = file_->drain(time_left());
    tick();
  }
  const bool has_all = !metrics_ || metrics_->is_complete();
  return file_->drain(time_left()) && has_all;
}

std::optional<Error> TensorboardLog::take_failure() {
  auto failure = file_->take_failure();
  return failure || !metrics_ ? std::move(failure) : metrics_->failure();
}

}  // namespace dlrun::agent
