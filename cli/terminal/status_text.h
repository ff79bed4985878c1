#pragma once
// Formats a run's status for people, and prints how a run ended.

#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/terminal/printed_text.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Returns the lines of `dlrun status`. Reads the last lines of the failed rank's log. wait_lines:
/// the lines of waiting_lines() about the run's wait in the queue.
[[nodiscard]] Text status_text(const IndexEntry& run, const RunStatus& status,
                               const std::vector<std::string>& wait_lines = {});

/// Prints to standard error how the run ended. If `json` is set, first prints the status as JSON to
/// standard output. Returns exit_code_of_state().
[[nodiscard]] int print_end(const Cli& cli, const IndexEntry& run, const RunStatus& status,
                            bool json = false);

}  // namespace dlrun
