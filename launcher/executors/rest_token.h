#pragma once
// The JSON Web Token that proves to slurmrestd who asks. It stays in this process: no argv, no
// environment, no record, no message.

#include <filesystem>
#include <string>

#include "common/result.h"

namespace dlrun {

/// The token in a file, as `scontrol token` prints it ("SLURM_JWT=...") or bare. Fails with
/// kNotFound, and with kInvalid for a file that is not the user's own (or root's), that others can
/// read or write, that holds no token, or one that has expired.
[[nodiscard]] Result<std::string> read_token(const std::filesystem::path& path);

}  // namespace dlrun
