#pragma once
// Follows a run: prints the run's log to standard output, and remarks about the run to standard
// error.

#include "cli/cli.h"
#include "common/interrupt.h"
#include "launcher/view/watch.h"

namespace dlrun {

/// Follows the run as launcher/view/watch.h describes. is_raw: prints the log's bytes unescaped,
/// even on a terminal. If the run has failed and its error file (resources.error) has text, prints
/// the path of that file.
[[nodiscard]] Result<RunStatus> follow_run(const Cli& cli, RunInspector& inspector,
                                           const IndexEntry& run, const WatchOptions& options,
                                           const Interrupt& interrupt, bool is_raw = false);

}  // namespace dlrun
