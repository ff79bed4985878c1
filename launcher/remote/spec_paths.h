#pragma once
// Paths in a spec that mean nothing on a host: refused by key, before anything is copied.

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

/// Reads the spec and its bases. Fails with all relative paths that leave the tree, with all
/// absolute ones inside it, and with a base outside of it. Returns the other absolute paths that
/// exist here, so that the host can say which of them it lacks. A text that is no YAML has no
/// paths; the host reports it.
[[nodiscard]] Result<std::vector<LocalPath>> check_spec_paths(const std::filesystem::path& spec,
                                                              const CodeTree& tree);

/// Fails with the paths that the host does not have.
[[nodiscard]] Result<> refuse_missing(const std::vector<LocalPath>& local,
                                      const std::vector<std::string>& missing,
                                      const std::string& host);

}  // namespace dlrun
