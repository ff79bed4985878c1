#pragma once
// Executes the plan that cleanup.h makes: deletes its runs one after another. Also describes the
// plan and the result as texts, tables and JSON.

#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "common/shown_data.h"
#include "launcher/cleanup/cleanup.h"

namespace dlrun {

/// Returns a table of the runs that would be deleted. If whole runs would be deleted, the table has
/// a column for the size of the checkpoints.
[[nodiscard]] TableRows cleanup_rows(const CleanupPlan& plan);
/// Returns "Delete 2 runs (12 files, 3.1 MiB)?".
[[nodiscard]] std::string cleanup_question(const CleanupPlan& plan);
/// Returns the note for a plan of prune that deletes nothing. age: the value of --older-than.
[[nodiscard]] std::string nothing_to_prune_text(const CleanupPlan& plan, const std::string& age);
/// Returns the message of --dry-run: "would delete 2 runs (...); nothing was deleted (--dry-run)".
[[nodiscard]] std::string dry_run_text(const CleanupPlan& plan);

/// Receives messages while runs are deleted.
struct CleanupListener {
  std::function<void(const std::string&)> result, note;
  std::function<void(const Error&)> error;
};

struct CleanupResult {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();  ///< an object for each run
  TreeSize freed;
  std::optional<Errc> failure;  ///< the code of the first failure
};

/// Deletes the runs. Also finishes earlier, interrupted deletions of any runs in the plan's runs
/// folders (CleanupPlan::folders). Reports an error for a run that cannot be deleted (or only a
/// note, see CleanupPlan::tolerates_busy_runs), and continues with the next run. Also forgets which
/// runs were deleted more than a year ago (deleted_runs.h).
[[nodiscard]] CleanupResult clean_up(const Env& env, RunInspector& inspector,
                                     const CleanupPlan& plan, const CleanupListener& listener);

/// Returns the result of --dry-run: nothing is deleted.
[[nodiscard]] CleanupResult dry_cleanup(const CleanupPlan& plan);

/// Returns the JSON of `rm --json` and `prune --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json cleanup_json(const CleanupPlan& plan,
                                                  const CleanupResult& result);

}  // namespace dlrun
