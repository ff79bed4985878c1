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

/// Checks the paths in the spec and in those of its bases (the file of its key `base`, the base of
/// that file, ...) that are in the repository. Reads at most kMostSpecFiles files. Fails with
/// kInvalid and all places if relative paths leave the repository, or if absolute paths lead into
/// it, and as read_untrusted() does if the spec cannot be read. Returns the absolute paths outside
/// the repository that exist on this machine, so that the host can look for them. Skips paths that
/// start with ~ or contain ${, because the host expands them. Skips a file that is not YAML,
/// because the host reports the syntax error.
[[nodiscard]] Result<std::vector<LocalPath>> check_spec_paths(const std::filesystem::path& spec,
                                                              const CodeTree& tree);

/// Fails with kInvalid and the places of the paths that are missing on the host.
[[nodiscard]] Result<> refuse_missing(const std::vector<LocalPath>& local,
                                      const std::vector<std::string>& missing,
                                      const std::string& host);

}  // namespace dlrun
