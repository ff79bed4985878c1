#pragma once
// The folder on this machine where dlrun keeps its records about a host.

#include <filesystem>
#include <string>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// Returns $XDG_STATE_HOME/dlrun/remote/HOST, or ~/.local/state/dlrun/remote/HOST if XDG_STATE_HOME
/// is not set or not absolute. Fails with kNotFound if HOME is needed and not set.
[[nodiscard]] Result<std::filesystem::path> host_records_folder(const Env& env,
                                                                const std::string& host);

}  // namespace dlrun
