#pragma once
// Copies files of a run from a host.

#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/remote/ssh.h"
#include "launcher/submit/context.h"

namespace dlrun {

/// The files to copy, and the folder for the copies.
struct FilePull {
  std::string host;                   ///< the host's name
  std::string from;                   ///< the run's folder there, absolute
  std::filesystem::path to;           ///< the folder here, which is made if it is missing
  std::string pattern;                ///< rsync's pattern of files; empty: all
  std::filesystem::path own_program;  ///< this dlrun, which rsync calls as its remote shell
};

/// Returns the argument vector of rsync. rsync copies only regular files and folders. It copies no
/// links, so no path of the host can lead out of `to`. It deletes nothing.
[[nodiscard]] std::vector<std::string> pull_argv(const FilePull& request);

/// Copies the files, and returns those that were new or changed, relative to `to`. Fails with
/// kIo and rsync's message, with kUnavailable if the connection failed, with kNotFound if rsync is
/// missing, and with kInvalid if `from` is not absolute.
[[nodiscard]] Result<std::vector<std::string>> pull_files(const FilePull& request, const Env& env);

/// A run on a host.
struct RunOnHost {
  std::string path;       ///< the run's folder there
  std::string copy_name;  ///< the name of the copy's folder here, from copy_folder_name_of()
};
/// Asks the host about a run. Fails with kNotFound if the host has no such run, with kInvalid if
/// the host's answer is no JSON object, and as ask_host() and copy_folder_name_of() do.
[[nodiscard]] Result<RunOnHost> find_run_on_host(const Context& context, const Ssh& ssh,
                                                 const std::string& run);

/// Returns the name of the folder for the copy of a run: the run's id, or "RUN-3" for a sweep's
/// point "RUN/3". Fails with kInvalid for an id that dlrun would not make, because a hostile host
/// could send any text.
[[nodiscard]] Result<std::string> copy_folder_name_of(const std::string& id);

}  // namespace dlrun
