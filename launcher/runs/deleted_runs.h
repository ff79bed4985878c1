#pragma once
// Remembers the runs that `dlrun rm` and `dlrun prune` deleted: one small file per run beside the
// user's index. Without these files, the name of a deleted run would silently refer to an older run
// of the same name, and `after` or `resubmit` could not say why a run is missing.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"
#include "launcher/runs/index.h"

namespace dlrun {

struct DeletedRun {
  IndexEntry run;
  std::string state;  ///< the run's last state, such as "completed"
  std::string time;   ///< UTC, of the deletion
};

/// A deleted run is remembered for this time.
inline constexpr std::chrono::hours kDeletedRunsKeptFor{24 * 365};

class DeletedRuns {
 public:
  /// Uses the folder `deleted` beside the index's folder. add() creates the folder if it is
  /// missing.
  [[nodiscard]] static DeletedRuns beside(const RunIndex& index);

  /// Remembers the run. Replaces an earlier record of the same id.
  [[nodiscard]] Result<> add(const DeletedRun& deleted) const;

  /// Returns the deleted run that has this id or path. Otherwise returns newest_of_name(text).
  /// Returns nullopt if there is neither.
  [[nodiscard]] std::optional<DeletedRun> find(std::string_view text) const;
  /// Returns the deleted run of this name that was created last.
  [[nodiscard]] std::optional<DeletedRun> newest_of_name(std::string_view name) const;

  /// Forgets the runs that were deleted more than kDeletedRunsKeptFor ago. Ignores errors.
  void forget_old(std::chrono::system_clock::time_point now) const;

 private:
  explicit DeletedRuns(std::filesystem::path directory) : directory_(std::move(directory)) {}
  [[nodiscard]] std::optional<DeletedRun> read(const std::string& id) const;

  std::filesystem::path directory_;
};

/// Returns "mnist-20261121-120000-00aa was deleted on 2026-11-25 (it was completed)".
[[nodiscard]] std::string describe(const DeletedRun& deleted);

}  // namespace dlrun
