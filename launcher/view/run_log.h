#pragma once
// Finds the log that the user has chosen.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "launcher/runs/index.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// A choice among the logs of a run.
struct LogChoice {
  std::optional<std::int64_t> rank;     ///< absent: the log of the whole job
  std::optional<std::int64_t> attempt;  ///< with a rank; absent: the latest
  std::string component;                ///< with a rank; empty: the job has one program
};

/// Opens the log. Fails with kNotFound if the log does not exist; the message says whether there
/// may be one later.
[[nodiscard]] Result<LogReader> open_log(RunInspector& inspector, const IndexEntry& run,
                                         const LogChoice& choice);

}  // namespace dlrun
