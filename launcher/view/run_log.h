#pragma once
// Finds the log that the user has chosen.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/runs/index.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// A choice among the logs of a run.
struct LogChoice {
  std::optional<std::int64_t> rank;     ///< absent: the log of the whole job
  std::optional<std::int64_t> attempt;  ///< with a rank; absent: the latest
  std::string component;                ///< with a rank; empty: the job has one program
};

/// Opens the log. Fails with kNotFound if the log does not exist; the message says whether the log
/// may still appear or may have been deleted. Fails with kUsage if the job has components, and a
/// rank is chosen without a component.
[[nodiscard]] Result<LogReader> open_run_log(RunInspector& inspector, const IndexEntry& run,
                                             const LogChoice& choice);

/// Returns a reader of the run's error file (resources.error); nullopt if the file is empty, does
/// not exist or cannot be read.
[[nodiscard]] std::optional<LogReader> error_log_with_text(const IndexEntry& run);

/// Returns the ranks in a list such as "2" or "0,4-7". Returns nullopt for "all". Fails with kUsage
/// for any other text, and for more than 10,000 ranks.
[[nodiscard]] Result<std::optional<std::vector<std::int64_t>>> parse_rank_list(
    std::string_view text);

/// Returns, sorted, the ranks that have a log in `attempt`, by default the latest attempt.
/// component: the component of the ranks; empty if the job has one program. Fails with kNotFound if
/// no rank has a log, and with kUsage if the job has components and `component` is empty.
[[nodiscard]] Result<std::vector<std::int64_t>> ranks_with_log(const IndexEntry& run,
                                                               std::optional<std::int64_t> attempt,
                                                               const std::string& component);

/// The ranks that the user chose for `dlrun logs`.
struct ChosenRanks {
  bool is_all = false;              ///< the user chose all ranks that have a log
  std::vector<std::int64_t> ranks;  ///< the ranks, unless is_all; empty: the log of the job
};
/// Parses the value of --rank; an empty list means the log of the job. Fails with kUsage if the
/// list is wrong, if an attempt or a component is given with an empty list, or if `component`
/// cannot be the name of a component.
[[nodiscard]] Result<ChosenRanks> parse_chosen_ranks(const std::string& list,
                                                     const std::optional<std::int64_t>& attempt,
                                                     const std::string& component);

/// Returns the label of the rank's lines if the logs of several ranks are shown: "rank 3: ".
[[nodiscard]] std::string label_of_rank(std::int64_t rank);

}  // namespace dlrun
