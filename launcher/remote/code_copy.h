#pragma once
// Finds the code that a command needs, and copies it to its mirror: the copy of a repository on a
// host. The mirror stays locked until Slurm has the job.

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

/// The code that is to be copied to the host, and where the command starts in it.
struct CodeToCopy {
  CodeTree tree;
  CodeList list;
  std::vector<LocalPath> paths;  ///< absolute paths of the spec that exist here
  std::string subfolder;         ///< the folder below the tree where the command starts
  std::string spec;              ///< the spec, relative to that folder; "-": standard input
};

/// Finds the repository around a spec ("-": around the current folder), lists its files, and checks
/// the spec's paths. Contacts no host. Fails with kInvalid if there is no repository, and as
/// check_spec_paths() and list_code() do.
[[nodiscard]] Result<CodeToCopy> prepare_code(const HostFile& host,
                                              const std::filesystem::path& current_dir,
                                              const std::string& spec, const Env& env);

/// The connection to the host after copy_under_lock().
struct LockedCopy {
  RemoteProcess process;  ///< holds the mirror's lock and waits for the frame kGo
  std::string files;      ///< the value of RemoteRequest::files in that frame; may be empty
};

/// Locks the mirror on the host and copies the code to it. Starts no rsync if the host has all
/// files already. program: dlrun on the host. own_program: this dlrun. Fails with kUnavailable if
/// the connection fails or another submission holds the lock, with kInvalid if the host lacks a
/// path of the spec, with kTimeout if the host does not answer within two minutes, with kIo if
/// rsync fails, and with kInterrupted after a signal.
[[nodiscard]] Result<LockedCopy> copy_under_lock(const Ssh& ssh, const std::string& program,
                                                 const CodeToCopy& code,
                                                 const std::filesystem::path& own_program,
                                                 const Interrupt& interrupt);

}  // namespace dlrun
