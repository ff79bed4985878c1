#pragma once
// The folder on this machine where dlrun keeps its records about a host.

#include <filesystem>
#include <string>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// Returns $XDG_STATE_HOME/dlrun/remote/HOST, or without this variable
/// ~/.local/state/dlrun/remote/HOST. Fails with kNotFound without HOME.
[[nodiscard]] Result<std::filesystem::path> host_records_folder(const Env& env,
                                                                const std::string& host);

}  // namespace dlrun
