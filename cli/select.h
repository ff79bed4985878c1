#pragma once
// The RUN argument of a command, and the run it means.

#include <string>

#include "cli/cli.h"
#include "launcher/runs/index.h"

namespace dlrun {

/// The run that text means; see resolve.h.
[[nodiscard]] Result<IndexEntry> select_run(const Cli& cli, const std::string& text);

inline constexpr char kRunHelp[] =
    "The run: a name, an id or its start, a job id, a path, or `last`";

}  // namespace dlrun
