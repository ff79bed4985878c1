#pragma once
// Formats states, sizes, costs and times for people.

#include <cstdint>
#include <optional>
#include <string>

#include "cli/terminal/text.h"
#include "launcher/plan/plan.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Returns the colour that a state has in all commands.
[[nodiscard]] Style style_of(RunState state);

/// Returns "at most 2.7 GPU-hours, 8.0 core-hours"; "" if the spec sets too little to compute
/// the cost.
[[nodiscard]] std::string cost(const Requested& requested);
/// Return the product of the requested GPUs or cores and the time limit; nothing if either
/// is unset.
[[nodiscard]] std::optional<double> gpu_hours(const Requested& requested);
[[nodiscard]] std::optional<double> core_hours(const Requested& requested);

/// Returns "9.2 MiB" or "1.5 GiB".
[[nodiscard]] std::string bytes_text(double bytes);

/// Returns "epoch 2/4, step 350/938, loss 0.123, accuracy 0.981, 84.3k samples/s".
[[nodiscard]] std::string progress_text(const Progress& progress);

/// Returns the time since a UTC timestamp written by dlrun: "12 s", "3 min", "2 h", "5 d". Returns
/// "" if `utc` is no such timestamp.
[[nodiscard]] std::string age(const std::string& utc);

}  // namespace dlrun
