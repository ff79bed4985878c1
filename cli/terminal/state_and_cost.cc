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

std::string cost_text(const Requested& requested) {
  std::vector<std::string> parts;
  if (const auto hours = gpu_hours(requested); hours && *hours > 0)
    parts.push_back(fmt::format("{:.3g} GPU-hours", *hours));
  if (const auto hours = core_hours(requested))
    parts.push_back(fmt::format("{:.3g} core-hours", *hours));
  return parts.empty() ? "" : "at most " + join(parts, ", ");
}

}  // namespace dlrun
