#pragma once
// Reads the JSON Web Token that identifies the user to slurmrestd. The token stays in this
// process: it is never in a command line, an environment, a record or a message.

#include <filesystem>
#include <string>

#include "common/result.h"

namespace dlrun {

/// Returns the token in a file, with or without the prefix "SLURM_JWT=" that `scontrol token`
/// prints. Fails with kNotFound if the file does not exist. Fails with kInvalid if the path is not
/// a regular file, if the file belongs neither to the user nor to root, if others can read or write
/// it, or if it holds no token or an expired one. Fails with kIo if the file cannot be read.
[[nodiscard]] Result<std::string> read_token(const std::filesystem::path& path);

}  // namespace dlrun
