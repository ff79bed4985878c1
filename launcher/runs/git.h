#pragma once
// The one place that runs git. A repository's own configuration can name programs (a file system
// monitor, hooks, filters, external diffs, transports), and the repository around a spec need not
// be the caller's work: none of them is started from here.

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/subprocess.h"

namespace dlrun {

/// Runs `git -C folder WORDS...`. Nothing that the repository names is executed or fetched, and no
/// lock is taken. Variables that lead git elsewhere (GIT_DIR and its like) are not passed on. Fails
/// as run_command() does, and with kInvalid where the repository's filters cannot be switched off
/// by name.
[[nodiscard]] Result<Finished> run_git(const std::filesystem::path& folder, const Env& env,
                                       const std::vector<std::string>& words,
                                       std::chrono::milliseconds timeout);

}  // namespace dlrun
