#pragma once
// The code of one command, and its copy on the host under the mirror's lock.

#include <filesystem>
#include <string>
#include <vector>

#include "common/interrupt.h"
#include "common/result.h"
#include "launcher/remote/code_tree.h"
#include "launcher/remote/remote_process.h"
#include "launcher/remote/spec_paths.h"
#include "launcher/remote/ssh.h"

namespace dlrun {

/// The code to copy, and where the command starts in it.
struct CodeCopy {
  CodeTree tree;
  CodeList list;
  std::vector<LocalPath> paths;  ///< absolute paths of the spec that exist here
  std::string subfolder;         ///< the folder below the tree where the command starts
  std::string spec;              ///< the spec, relative to that folder; "-": standard input
};

/// Finds the repository around a spec ("-": around the current folder), lists its files, and checks
/// the spec's paths. Contacts no host. Fails with kInvalid if there is no repository.
[[nodiscard]] Result<CodeCopy> prepare_code(const HostFile& host,
                                            const std::filesystem::path& current_dir,
                                            const std::string& spec, const Env& env);

/// The host after a copy.
struct LockedCopy {
  RemoteProcess process;  ///< holds the mirror's lock and waits for Frame::kGo
  std::string files;      ///< RemoteRequest::files of that frame
};

/// Locks the mirror on the host and copies the code to it. Starts no rsync if the host has all
/// files already. program: dlrun on the host. own_program: this dlrun. Fails with kUnavailable if
/// the connection fails or another submission holds the lock, with kIo if rsync fails, and with
/// kInterrupted.
[[nodiscard]] Result<LockedCopy> copy_under_lock(const Ssh& ssh, const std::string& program,
                                                 const CodeCopy& code,
                                                 const std::filesystem::path& own_program,
                                                 const Interrupt& interrupt);

}  // namespace dlrun
