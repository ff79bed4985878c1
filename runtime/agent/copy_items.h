#pragma once
// The options --stage and --output of the rank agent: data to copy to a node, and folders to copy
// from it. The launcher writes each as a JSON object.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

/// Data that the agent of each node's lowest rank copies before the programs start.
struct StageItem {
  std::string from;           ///< absolute: a file or a folder
  std::string to;             ///< $VARIABLE/PATH
  bool unpack = false;        ///< `from` is a tar archive, and `to` is the folder of its contents
  bool in_container = false;  ///< the ranks' agents run in a container
  /// The path on this node of a copy that lead has made with sbcast (file_broadcast.h); empty:
  /// none.
  std::string broadcast_copy{};

  /// Reads {"from": PATH, "to": "$VARIABLE/PATH", "unpack": true, "in_container": true,
  /// "broadcast": PATH}. Only `from` and `to` are required. Fails with kUsage.
  [[nodiscard]] static Result<StageItem> parse(std::string_view text);
  [[nodiscard]] std::string json() const;
};

/// A folder or file of a node. The agent of the node's lowest rank copies it to a folder that
/// outlives the job.
struct OutputItem {
  std::string from;                             ///< $VARIABLE/PATH
  std::string to;                               ///< absolute, or relative to the run's directory
  std::optional<std::chrono::seconds> every{};  ///< nullopt: only at the end
  std::chrono::seconds limit{600};              ///< the longest time for one copy of all its files

  /// Reads {"from": "$VARIABLE/PATH", "to": PATH, "every_s": N, "limit_s": N}. Only `from` and `to`
  /// are required. A time below one second counts as one second. Fails with kUsage.
  [[nodiscard]] static Result<OutputItem> parse(std::string_view text);
  [[nodiscard]] std::string json() const;
};

/// A path below a folder of the node, such as $TMPDIR/data.
struct NodePath {
  std::filesystem::path base;  ///< the value of the variable, without symbolic links
  std::filesystem::path path;  ///< base/PATH
};

/// Expands $VARIABLE/PATH with the node's environment. TMPDIR is /tmp if it is not set. Fails with
/// kInvalid if the text has another form, if PATH leaves the folder, or if the variable is not the
/// absolute path of an existing folder.
[[nodiscard]] Result<NodePath> node_path(std::string_view text, const Env& env);

/// Sets TMPDIR to /tmp if a path of the items begins with $TMPDIR and the variable is not set, so
/// that the program finds the same folder.
void set_missing_tmpdir(const std::vector<StageItem>& stage, const std::vector<OutputItem>& outputs,
                        Env& env);

}  // namespace dlrun::agent
