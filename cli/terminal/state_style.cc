#include "cli/terminal/state_style.h"

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

}  // namespace dlrun
