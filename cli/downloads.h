#pragma once
// train.data.download: what is not there yet is fetched before a job is recorded or queued.

#include <string>
#include <vector>

#include "cli/cli.h"
#include "launcher/spec/load.h"

namespace dlrun {

/// Fetches what train.data.path does not have yet, with one line of progress on a terminal. What is
/// wrong has been printed, with its place in the spec, when this fails (with an empty message).
/// Nothing to do without such keys.
[[nodiscard]] Result<> fetch_downloads(const Cli& cli, const LoadedSpec& loaded);

/// The names of the files that fetch_downloads would fetch, without asking the network. Fails as it
/// does where a file that is there is another one than the spec says.
[[nodiscard]] Result<std::vector<std::string>> missing_downloads(const Cli& cli,
                                                                 const LoadedSpec& loaded);

}  // namespace dlrun
