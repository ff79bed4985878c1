#include "cli/terminal/state_and_cost.h"

#include "common/text.h"

namespace dlrun {
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

std::string cost_text(const Requested& requested) {
  std::vector<std::string> parts;
  if (const auto hours = gpu_hours(requested); hours && *hours > 0)
    parts.push_back(fmt::format("{:.3g} GPU-hours", *hours));
  if (const auto hours = core_hours(requested))
    parts.push_back(fmt::format("{:.3g} core-hours", *hours));
  return parts.empty() ? "" : "at most " + join(parts, ", ");
}

}  // namespace dlrun
