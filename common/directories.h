#pragma once
// Creates directories that survive a power loss.

#include <sys/types.h>

#include <filesystem>

#include "common/result.h"

namespace dlrun {

/// Creates the path and its missing parents, with `mode` reduced by the umask. Syncs the parent of
/// each new directory; otherwise a power loss could remove the directory together with files that
/// were synced later. Leaves existing directories as they are. Fails with kIo.
/// make_private_directories() of common/files.h calls this function with mode 0700.
[[nodiscard]] Result<> make_directories(const std::filesystem::path& path, mode_t mode);

}  // namespace dlrun
