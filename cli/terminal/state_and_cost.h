#pragma once
// The colour of a run's state, and the cost of a job as text.

#include <string>

#include "cli/terminal/printed_text.h"
#include "common/units.h"
#include "launcher/plan/plan.h"
#include "launcher/runs/status.h"
#include "launcher/view/run_text.h"

namespace dlrun {

/// Returns the colour that a state has in all commands.
[[nodiscard]] Style style_of(RunState state);

/// Returns "at most 2.7 GPU-hours, 8 core-hours"; "" if the spec sets too little to compute
/// the cost.
[[nodiscard]] std::string cost_text(const Requested& requested);

}  // namespace dlrun
