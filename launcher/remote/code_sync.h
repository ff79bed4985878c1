#pragma once
// Copies the code to its mirror on a host with rsync.

#include <filesystem>
#include <string>

#include "common/env.h"
#include "common/result.h"
#include "launcher/remote/code_tree.h"

namespace dlrun {

/// Copies the listed files, and deletes those that an earlier copy brought and that are gone here.
/// Files that only the host has stay. mirror: the absolute path on the host. program: this dlrun,
/// which rsync calls as its remote shell. Fails with kIo and rsync's words.
[[nodiscard]] Result<> copy_code(const CodeTree& tree, const CodeList& list, const HostFile& host,
                                 const std::string& mirror, const std::filesystem::path& program,
                                 const Env& env);

/// Returns rsync's -e, with which rsync calls this dlrun to reach the host.
[[nodiscard]] std::string rsync_shell(const std::filesystem::path& program,
                                      const std::string& host);

/// Returns $XDG_STATE_HOME/dlrun/remote/HOST, else below ~/.local/state. Fails with kNotFound
/// without HOME.
[[nodiscard]] Result<std::filesystem::path> remote_state_folder(const Env& env,
                                                                const std::string& host);

}  // namespace dlrun
