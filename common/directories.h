#pragma once
// Directories that stay after a power loss.

#include <sys/types.h>

#include <filesystem>

#include "common/result.h"

namespace dlrun {

/// Creates path and the missing directories above it, with mode as the umask leaves it. Each new
/// one is synced into the one above it: otherwise all that is written into it later could go with
/// it, however well that is synced. An existing directory is left as it is.
/// make_private_directories() of common/files.h is this function with mode 0700.
[[nodiscard]] Result<> make_directories(const std::filesystem::path& path, mode_t mode);

}  // namespace dlrun
