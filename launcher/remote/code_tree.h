#pragma once
// The git repository around a spec, and those of its files that are copied to a host.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/remote/host_file.h"

namespace dlrun {

/// A git repository on this machine, and the name of its copy on a host.
struct CodeTree {
  std::filesystem::path top;
  std::string mirror;  ///< NAME-HASH; the hash of this machine's name and of the path `top`
};

/// Returns the repository around a folder; nullopt if there is none. Starts no program.
[[nodiscard]] std::optional<CodeTree> find_tree(const std::filesystem::path& folder);

/// The files to copy.
struct CodeList {
  /// Relative to the top, sorted. Includes deleted files that git still tracks.
  std::vector<std::string> files;
  /// Inner repositories that are no submodules. git does not list their files.
  std::vector<std::string> skipped_repositories;
  std::int64_t bytes = 0;  ///< the size of all regular files
};

/// Returns the files that git lists in the repository and its submodules: tracked files, and other
/// files that git does not ignore. Follows submodules down to eight levels. Adds the files of
/// `sync.also`, and leaves out those of `sync.exclude`; both are keys of the host's file. Fails
/// with kInvalid if all files together exceed `sync.max` (the message names the largest ones), with
/// kInvalid and git's message if git fails, with kIo if a folder of `sync.also` cannot be read, and
/// as run_git() does.
[[nodiscard]] Result<CodeList> list_code(const CodeTree& tree, const HostFile& host,
                                         const Env& env);

}  // namespace dlrun
