#pragma once
// Following a run to its end, without flooding anybody: files are looked at five times a second,
// Slurm is asked after 1 s, 2 s, 4 s ... and then every 30 s.

#include <chrono>
#include <cstdint>
#include <optional>

#include "cli/cli.h"
#include "cli/interrupt.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

struct WatchOptions {
  bool print_log = true;             ///< to stdout, as it grows
  bool is_raw = false;               ///< on a terminal, too, nothing of the log is escaped
  std::optional<std::int64_t> rank;  ///< that rank's log instead of the job's
  std::optional<std::int64_t>
      attempt;  ///< of that attempt; else the current one, whichever that comes to be
  std::optional<std::size_t> tail;  ///< only the last lines of what is there already
  std::optional<std::chrono::seconds>
      remind;  ///< why it is pending is told again after this long, not once alone
};

/// Returns when the run has ended and its log has been printed, with the last status; kInterrupted
/// when a signal came.
[[nodiscard]] Result<RunStatus> watch_run(const Cli& cli, RunInspector& inspector,
                                          const IndexEntry& run, const WatchOptions& options,
                                          const Interrupt& interrupt);

}  // namespace dlrun
