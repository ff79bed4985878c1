#pragma once
// Follows a run to its end without flooding anybody: reads its files five times a second; asks
// Slurm after 1 s, 2 s, 4 s ..., finally about every 40 s.

#include <chrono>
#include <cstdint>
#include <optional>

#include "cli/cli.h"
#include "cli/interrupt.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Selects what watch_run() prints.
struct WatchOptions {
  bool print_log = true;             ///< print the log to stdout as it grows
  bool is_raw = false;               ///< print the log's bytes unescaped, also on a terminal
  std::optional<std::int64_t> rank;  ///< print this rank's log instead of the job's
  /// Print this attempt's log; by default the current attempt's, also after a restart.
  std::optional<std::int64_t> attempt;
  std::optional<std::size_t> tail;  ///< print only the last lines of the existing log
  /// Repeat after this time why the run is pending; otherwise only when the reason changes.
  std::optional<std::chrono::seconds> remind;
};

/// Waits until the run has ended and its log is printed. Returns the last status. Fails with
/// kInterrupted when a signal arrives.
[[nodiscard]] Result<RunStatus> watch_run(const Cli& cli, RunInspector& inspector,
                                          const IndexEntry& run, const WatchOptions& options,
                                          const Interrupt& interrupt);

}  // namespace dlrun
