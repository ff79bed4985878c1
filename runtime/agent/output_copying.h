#pragma once
// Copies files from a node to a lasting folder (the spec's key `outputs`), while the program runs
// and at its end.
//
// A file is copied to a temporary name in the target folder, synced and renamed. If the file
// changes meanwhile, its older copy stays. A copy that is newer than its source is never replaced.
// No file of the target folder is ever deleted, except temporary files of copies that were killed.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/env.h"
#include "runtime/agent/copy_items.h"
#include "runtime/agent/copy_report.h"
#include "runtime/agent/leftovers.h"

namespace dlrun::agent {

/// The options of `dlrun-agent collect`.
struct CollectOptions {
  std::vector<OutputItem> items{};
  std::filesystem::path run{};  ///< the run's directory; relative target folders are below it
  /// The index of the node; set if the job has several nodes. Each node then has its own folder.
  std::optional<int> node{};
  bool is_last = false;  ///< this is the last copy: the program has ended, and no file changes
  /// Unix time in milliseconds. Files that were written at this time or later may be incomplete,
  /// because the program failed or was ended. Such a file does not replace an older copy. nullopt:
  /// no file is incomplete.
  std::optional<std::chrono::milliseconds> incomplete_since{};
  std::chrono::seconds leftover_age = kLeftoverAge;  ///< see remove_leftovers()
};

/// Files younger than this are not copied while the program runs: it may still write them.
inline constexpr std::chrono::seconds kLeastFileAge{2};

/// Copies the files of all items that have changed since their last copy, and returns the report.
/// Each item has its own time limit.
[[nodiscard]] CopyReport collect_outputs(const CollectOptions& options, const Env& env);

}  // namespace dlrun::agent
