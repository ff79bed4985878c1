#pragma once
// Finds paths in a spec that are wrong on a host, before anything is copied.

#include <filesystem>
#include <string>
#include <vector>

#include "common/diagnostic.h"
#include "common/result.h"
#include "launcher/remote/code_tree.h"

namespace dlrun {

/// An absolute path that exists on this machine, with its place in the spec.
struct LocalPath {
  std::string key, path;
  Diagnostic at;  ///< without a message
};

/// Checks the paths in the spec and in its bases (the file of its key `base`, the base of that
/// file, ...). Does not check a base outside the repository. Reads at most kMostSpecFiles files.
/// Returns the absolute paths outside the repository that exist on this machine, so that the host
/// can look for them. Skips paths that start with ~ or contain ${, because the host expands them.
/// Skips a file that is not YAML, because the host reports the syntax error. Fails
/// - with kInvalid if a relative path leaves the repository or an absolute path leads into it; the
///   error has a Diagnostic for each such path;
/// - as read_untrusted() does if the spec cannot be read.
[[nodiscard]] Result<std::vector<LocalPath>> check_spec_paths(const std::filesystem::path& spec,
                                                              const CodeTree& tree);

/// Fails with kInvalid and a Diagnostic for each path of `local` that is also in `missing`. host:
/// the host's name for the messages.
[[nodiscard]] Result<> refuse_missing(const std::vector<LocalPath>& local,
                                      const std::vector<std::string>& missing,
                                      const std::string& host);

}  // namespace dlrun
