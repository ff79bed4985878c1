#pragma once
// Describes a run as text: its progress, its result, its end. The texts are single lines without
// layout and colour.

#include <string>
#include <vector>

#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Returns "epoch 2/4, step 350/938, loss 0.123, accuracy 0.981, 84.3k samples/s".
[[nodiscard]] std::string progress_text(const Progress& progress);

/// Returns a result as "test_accuracy 0.9781, test_loss 0.071". result: a JSON object.
[[nodiscard]] std::string result_text(const std::string& result);

/// Returns "job 42", or "on HOST, process PID" for a run on one machine without Slurm. HOST is
/// there because the user may be on another machine.
[[nodiscard]] std::string job_text(const JobId& job);

/// Returns the number of the latest attempt (the first one is 0), the causes of all restarts, and
/// how many restarts are left: "2, after failure, node_failure; at most 1 restart left". Between
/// two attempts, the number is that of the next one ("3 is next"). If the run has ended, the text
/// does not say how many restarts are left. Returns "" if there was only one attempt.
[[nodiscard]] std::string attempt_text(const RunRecord& record);

/// Returns a line for each component of a job with several programs: its state, its nodes and the
/// number of its restarts.
[[nodiscard]] std::vector<std::string> component_state_lines(const RunRecord& record);

/// Returns one sentence on how the run ended, for --watch and wait: "mnist-...: failed: rank 3 on
/// n2 was ended by SIGKILL".
[[nodiscard]] std::string end_text(const IndexEntry& run, const RunStatus& status);

/// Returns in a few words why a run has ended: the message about a container that could not be
/// started, else the first rank that failed, else the detail. Call it only for a run that
/// is_inactive().
[[nodiscard]] std::string end_cause_text(const RunStatus& status);

/// The largest width of a summary in a list, in columns. `status` and --json show everything.
inline constexpr std::size_t kSummaryColumns = 72;
/// Returns the progress if the run is running, the result if it has completed, the reason if it has
/// failed or is ending after `dlrun cancel`; for a sweep, the counts of its points. The text begins
/// with the owner of the run if the owner is another user.
[[nodiscard]] std::string summary_text(const RunStatus& status);

/// Returns the nodes of the run's ranks, else those that the executor reports; "" if unknown.
[[nodiscard]] std::string nodes_of(const RunFacts& facts);

/// Returns the time since a UTC timestamp written by dlrun: "12 s", "3 min", "2 h", "5 d". Returns
/// "" if `utc` is not a timestamp of that form.
[[nodiscard]] std::string age(const std::string& utc);

}  // namespace dlrun
