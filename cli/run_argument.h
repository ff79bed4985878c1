#pragma once
// Resolves the RUN argument of a command.

#include <string>
#include <vector>

#include "cli/cli.h"
#include "launcher/runs/index.h"
#include "launcher/runs/resolve.h"

namespace dlrun {

/// Returns the run for the argument `text`. launcher/runs/resolve.h lists the accepted forms.
[[nodiscard]] Result<IndexEntry> select_run(const Cli& cli, const std::string& text,
                                            IdStart accepted = IdStart::kAny);

/// Returns the runs for the arguments. Fails at the first argument for which there is no run.
[[nodiscard]] Result<std::vector<IndexEntry>> select_runs(const Cli& cli,
                                                          const std::vector<std::string>& texts);

/// The value of RUN if the command line has none: the newest run.
inline constexpr char kNewestRun[] = "last";

/// Returns the RUN arguments of a command, or the newest run if there are none.
[[nodiscard]] std::vector<std::string> runs_or_newest(const std::vector<std::string>& texts);

inline constexpr char kRunHelp[] =
    "The run: a name, an id or its first characters, a job id, a path, or `last`";
/// For commands that end or delete runs. These commands accept only IdStart::kWithDate.
inline constexpr char kRunWithDateHelp[] =
    "The run: a name, an id or its first characters (at least NAME-YYYYMMDD), a job id, a path, or "
    "`last`";
inline constexpr char kOptionalRunHelp[] =
    "The run: a name, an id or its first characters, a job id, a path, or `last` (default: last)";

}  // namespace dlrun
