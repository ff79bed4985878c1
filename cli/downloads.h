#pragma once
// train.data.download: fetches the missing files before a job is recorded or queued.

#include <string>
#include <vector>

#include "cli/cli.h"
#include "launcher/spec/load.h"

namespace dlrun {

/// Downloads the files that train.data.path does not have yet, with a progress line on a terminal.
/// Fails with an empty message after printing each problem with its place in the spec. Does nothing
/// if the spec has no downloads.
[[nodiscard]] Result<> fetch_downloads(const Cli& cli, const LoadedSpec& loaded);

/// Returns the names of the files that fetch_downloads() would download; uses no network. Fails as
/// fetch_downloads() does if an existing file differs from the one in the spec.
[[nodiscard]] Result<std::vector<std::string>> missing_downloads(const Cli& cli,
                                                                 const LoadedSpec& loaded);

}  // namespace dlrun
