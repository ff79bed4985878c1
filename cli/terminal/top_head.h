#pragma once
// The lines of `dlrun top` above its table. Pure functions.

#include <cstddef>
#include <optional>
#include <vector>

#include "cli/terminal/printed_text.h"
#include "launcher/view/run_picture.h"

namespace dlrun {

/// Returns the lines about the run, its nodes, its progress and its rate. The last line is
/// always empty: it separates the head from the table.
[[nodiscard]] std::vector<Text> head_lines(const RunPicture& picture, std::size_t columns);

/// Returns the part of the run that is done, from 0 to 1; nullopt if unknown.
[[nodiscard]] std::optional<double> part_done(const Progress& progress);

/// Returns the step that rank 0 has reached in the latest attempt, for the head and the table
/// alike: progress reports and samples of the ranks are recorded at different times. Returns
/// nullopt if the attempt has not reported a step.
[[nodiscard]] std::optional<std::int64_t> newest_step(const RunPicture& picture);

}  // namespace dlrun
