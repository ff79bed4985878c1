#pragma once
// Copies the code to its mirror (the copy of a repository on a host) with rsync.

#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/remote/code_tree.h"

namespace dlrun {

/// Copies the listed files. Deletes files on the host that an earlier call copied and that no
/// longer exist on this machine. Other files on the host stay. mirror_path: the mirror's absolute
/// path on the host. own_program: this dlrun, which rsync calls as its remote shell. Fails with
/// kNotFound if rsync is missing, with kUnavailable and rsync's message if the connection fails,
/// and with kIo and rsync's message after any other error of rsync.
[[nodiscard]] Result<> copy_code(const CodeTree& tree, const CodeList& list, const HostFile& host,
                                 const std::string& mirror_path,
                                 const std::filesystem::path& own_program, const Env& env);

/// Returns true if the last copy to the host was of exactly the files of `list`. Returns false
/// while files that no longer exist here, and that git no longer lists, must still be deleted on
/// the host. Returns true even if rsync failed after it had begun to copy the listed files, so the
/// host must still compare their state (is_mirror_current()).
[[nodiscard]] bool last_copy_was_of(const CodeTree& tree, const CodeList& list,
                                    const HostFile& host, const Env& env);

/// Returns the names as one text, with a NUL after each name.
[[nodiscard]] std::string joined_names(const std::vector<std::string>& names);

/// Returns true for the exit codes of rsync and ssh after which trying again may help: the
/// connection was lost or could not be opened, or the program at its other end has ended early.
[[nodiscard]] bool is_connection_failure(int exit_code);

/// Returns the value of rsync's -e, with which rsync starts this dlrun to reach the host.
[[nodiscard]] std::string rsync_shell(const std::filesystem::path& own_program,
                                      const std::string& host);

}  // namespace dlrun
