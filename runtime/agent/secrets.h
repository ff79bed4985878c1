#pragma once
// Reads secrets from the run's file directly into the environment of a program. The secrets of the
// file are never in the environments of lead, srun and the agent themselves.

#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

/// Sets each of `names` in env from RUN/secrets (runtime/ENVIRONMENT.md), and hides its value in
/// the log. If `run` is empty, there is no file. A name that is not in the file keeps its value in
/// env. The file does not exist if the script was submitted by hand. Fails with kInvalid if one of
/// the names is neither in the file nor in env, or if the file cannot be opened, is a link or no
/// regular file, is larger than 8 MiB, belongs to another user, or is accessible to others. Fails
/// with kIo if the file cannot be read. No message contains a value.
[[nodiscard]] Result<> add_secrets(Env& env, const std::vector<std::string>& names,
                                   const std::filesystem::path& run);

/// Removes the secrets file, if there is one. Lead calls it when the run is over.
void remove_secrets(const std::filesystem::path& run);

}  // namespace dlrun::agent
