#pragma once
// Reads the values in a program's progress reports (DLRUN_PROGRESS) and in the lines of
// metrics.jsonl, for the records of other tools (track). Pure functions.

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/agent/messages.h"
#include "runtime/agent/tensorboard_event.h"

namespace dlrun::agent {

/// Returns the finite numbers of a report, except `step`, `steps`, `epochs` and `checkpoint`; at
/// most 64 of them. Their names become tags of at most 64 characters from A-Z, a-z, 0-9, '_', '-',
/// '.' and '/'.
[[nodiscard]] std::vector<Scalar> scalars_of(const Json& report);
/// Returns the position of a report on the axis of a chart: its step, or its epoch if it has no
/// step; nullopt if it has neither. A negative number does not count.
[[nodiscard]] std::optional<std::int64_t> step_or_epoch_of(const Json& report);

}  // namespace dlrun::agent
