#pragma once
// The program's secrets, from the run's own file straight into its environment. Neither lead, srun
// nor this process has them in an environment of its own.

#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

/// Sets each of names in env from RUN/secrets (runtime/ENVIRONMENT.md). Without that file (a script
/// that was submitted by hand) a name keeps the value that env has. Fails with kInvalid: a name
/// that neither has, or a file that is a link, not a regular file, another user's, or open to
/// others. No message holds a value.
[[nodiscard]] Result<> add_secrets(Env& env, const std::vector<std::string>& names,
                                   const std::filesystem::path& run);

/// For lead, when the run is over. No file: nothing to do.
void remove_secrets(const std::filesystem::path& run);

}  // namespace dlrun::agent
