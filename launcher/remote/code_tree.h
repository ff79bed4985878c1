#pragma once
// The code around a spec, and the files of it that go to a host.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/remote/host_file.h"

namespace dlrun {

/// A git repository on this machine, and its copy's name on a host.
struct CodeTree {
  std::filesystem::path top;
  std::string mirror;  ///< NAME-HASH; the hash is of this machine and of `top`
};

/// Returns the repository around a folder; nullopt if there is none. Starts no program.
[[nodiscard]] std::optional<CodeTree> find_tree(const std::filesystem::path& folder);

struct CodeList {
  std::vector<std::string> files;    ///< relative to the top, sorted; also files that are deleted
  std::vector<std::string> skipped;  ///< repositories inside that git does not list
  std::int64_t bytes = 0;
};

/// Returns the files that git lists, tracked or not ignored, also those of submodules, with
/// `also` and without `exclude` of the host's file. Fails with kInvalid and names the largest files
/// if they are larger than `max`.
[[nodiscard]] Result<CodeList> list_code(const CodeTree& tree, const HostFile& host,
                                         const Env& env);

}  // namespace dlrun
