#pragma once
// The only code that runs git. A repository's configuration can make git start programs (file
// system monitors, hooks, filters, external diffs, transports), and the repository around a spec
// may belong to another user. run_git() starts none of these programs.

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/subprocess.h"

namespace dlrun {

/// Runs `git -C folder` with `arguments`. Starts no program from the repository's configuration,
/// fetches nothing, and takes no lock. Does not pass on variables that make git use another
/// repository (GIT_DIR and similar). Fails as run_command() does, and with kInvalid if the filters
/// cannot be switched off: the name of a filter has a '=', git's configuration has more than 256
/// settings of filters, or git cannot list the filters.
[[nodiscard]] Result<FinishedCommand> run_git(const std::filesystem::path& folder, const Env& env,
                                              const std::vector<std::string>& arguments,
                                              std::chrono::milliseconds timeout);

}  // namespace dlrun
