#include "cli/terminal/words.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "common/text.h"

namespace dlrun {
namespace {

std::string short_number(double value) {
  if (value >= 1e6) return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

std::string of_total(std::string_view what, std::int64_t value,
                     const std::optional<std::int64_t>& total) {
  return total ? fmt::format("{} {}/{}", what, value, *total) : fmt::format("{} {}", what, value);
}

}  // namespace

Style style_of(RunState state) {
  switch (state) {
    case RunState::kCompleted:
      return Style::kGreen;
    case RunState::kRunning:
      return Style::kBlue;
    case RunState::kPending:
      return Style::kYellow;
    case RunState::kFailed:
    case RunState::kTimeout:
    case RunState::kRefused:
      return Style::kRed;
    case RunState::kNotSubmitted:
    case RunState::kCancelled:
    case RunState::kUnknown:
      return Style::kDim;
  }
  return Style::kNone;
}

std::string bytes_text(double bytes) {
  constexpr double kStep = 1024;
  if (bytes < kStep * kStep) return fmt::format("{:.1f} KiB", bytes / kStep);
  const double mebibytes = bytes / kStep / kStep;
  return mebibytes < kStep ? fmt::format("{:.1f} MiB", mebibytes)
                           : fmt::format("{:.1f} GiB", mebibytes / kStep);
}

std::optional<double> gpu_hours(const Requested& requested) {
  if (!requested.gpus || !requested.time_seconds) return std::nullopt;
  return static_cast<double>(*requested.gpus) * static_cast<double>(*requested.time_seconds) /
         3600.0;
}

std::optional<double> core_hours(const Requested& requested) {
  if (!requested.cpus || !requested.time_seconds) return std::nullopt;
  return static_cast<double>(*requested.cpus) * static_cast<double>(*requested.time_seconds) /
         3600.0;
}

std::string cost(const Requested& requested) {
  std::vector<std::string> parts;
  if (const auto hours = gpu_hours(requested); hours && *hours > 0)
    parts.push_back(fmt::format("{:.3g} GPU-hours", *hours));
  if (const auto hours = core_hours(requested))
    parts.push_back(fmt::format("{:.3g} core-hours", *hours));
  return parts.empty() ? "" : "at most " + join(parts, ", ");
}

std::string progress_text(const Progress& progress) {
  std::vector<std::string> parts;
  if (progress.epoch) parts.push_back(of_total("epoch", *progress.epoch, progress.epochs));
  if (progress.step) parts.push_back(of_total("step", *progress.step, progress.steps));
  if (progress.loss) parts.push_back(fmt::format("loss {:.4g}", *progress.loss));
  if (progress.accuracy) parts.push_back(fmt::format("accuracy {:.4g}", *progress.accuracy));
  if (progress.samples_per_s)
    parts.push_back(fmt::format("{} samples/s", short_number(*progress.samples_per_s)));
  return join(parts, ", ");
}

std::string age(const std::string& utc) {
  std::tm parts{};
  if (::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return {};
  const auto then = std::chrono::system_clock::from_time_t(::timegm(&parts));
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now() - then)
          .count();
  if (seconds < 120) return fmt::format("{} s", std::max<std::int64_t>(seconds, 0));
  if (seconds < 2 * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86400);
}

}  // namespace dlrun
