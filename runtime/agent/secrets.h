#pragma once
// Reads secrets from the file RUN/secrets into the environment of a program. These secrets are
// never in the environments of lead, srun and the rank's agent.

#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

/// Sets each of `names` in env from RUN/secrets (runtime/ENVIRONMENT.md), and hides its value in
/// the log. There is no file if `run` is empty, or if the script was submitted by hand. A name that
/// is not in the file keeps its value in env. Fails with
///  - kInvalid if one of the names is neither in the file nor in env,
///  - kInvalid if the file cannot be opened, is a link or no regular file, is larger than 8 MiB,
///    belongs to another user, or is accessible to others,
///  - kIo if the file cannot be read.
/// No message contains a value.
[[nodiscard]] Result<> add_secrets(Env& env, const std::vector<std::string>& names,
                                   const std::filesystem::path& run);

/// Removes the secrets file, if there is one. Lead calls it when the run is over.
void remove_secrets(const std::filesystem::path& run);

}  // namespace dlrun::agent
