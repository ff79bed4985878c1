#pragma once
// Finds the code that a command needs, and copies it to its mirror, which is the copy of a
// repository on a host. A submission keeps the mirror locked until Slurm has the job.

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

/// The code to copy to the host, and the folder of this code in which the command starts.
struct CodeToCopy {
  CodeTree tree;
  CodeList list;
  std::vector<LocalPath> paths;  ///< absolute paths in the spec that exist on this machine
  std::string subfolder;  ///< where the command starts, relative to the top of the repository
  std::string spec;       ///< the spec, relative to `subfolder`; "-": standard input
};

/// Finds the repository around a spec, checks the spec's paths, and lists the repository's files.
/// If the spec is "-", takes the repository around the current folder and checks no paths. Contacts
/// no host. Fails with kInvalid if there is no repository, and as check_spec_paths() and
/// list_code() do.
[[nodiscard]] Result<CodeToCopy> prepare_code(const HostFile& host,
                                              const std::filesystem::path& current_dir,
                                              const std::string& spec, const Env& env);

/// A dlrun that was started on the host by copy_under_lock(), or by start_on_host() if there is no
/// code to copy.
struct StartedProcess {
  RemoteProcess process;  ///< from copy_under_lock(): holds the mirror's lock and waits for kGo
  std::string file_list;  ///< RemoteRequest::file_list for the frame kGo; may be empty
};

/// Locks the mirror on the host and copies the code to it. Starts no rsync if the last copy was of
/// the same files and the host answers that its copy is current. program: the path of dlrun on the
/// host. own_program: the path of this dlrun. The function fails
/// - with kUnavailable if the connection fails or another submission keeps the lock,
/// - with kNotFound if dlrun does not start on the host, or if rsync is not installed here,
/// - with kInvalid if the host lacks a path of the spec,
/// - with kTimeout if the host does not answer within two minutes,
/// - with kIo if rsync fails, and with kInterrupted after a signal.
[[nodiscard]] Result<StartedProcess> copy_under_lock(const Ssh& ssh, const std::string& program,
                                                     const CodeToCopy& code,
                                                     const std::filesystem::path& own_program,
                                                     const Interrupt& interrupt);

}  // namespace dlrun
