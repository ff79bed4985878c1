#pragma once
// The colour of a run's state.

#include "cli/terminal/printed_text.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Returns the colour that a state has in all commands.
[[nodiscard]] Style style_of(RunState state);

}  // namespace dlrun
