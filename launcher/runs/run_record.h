#pragma once
// Summarises a run's record, events.jsonl (see runtime/ENVIRONMENT.md).

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/record_words.h"
#include "common/result.h"
#include "common/run_events.h"
#include "launcher/runs/autopsy_groups.h"

namespace dlrun {

/// The end of a rank that failed.
struct RankFailure {
  std::int64_t rank = -1;  ///< -1: unknown
  std::string host;
  std::int64_t code = 0;    ///< exit code
  std::string signal;       ///< "SIGKILL"; empty: the rank exited
  std::string error;        ///< the program's own error message; empty: unknown
  std::string component{};  ///< empty: the job has one program
};

/// One component of a job with several programs, in the latest attempt.
struct RecordedComponent {
  std::string name;
  Word<ComponentRole> role;
  std::int64_t ranks = 0;
  ComponentState state = ComponentState::kWaiting;
  std::string hosts{};                 ///< compressed node list of its ranks
  std::string addr{};                  ///< IP and port of its rank 0, once it is ready
  std::int64_t restarts = 0;           ///< restarts of the component alone
  std::optional<std::int64_t> code{};  ///< the exit code of its end
};

/// The latest values that the program has reported.
struct Progress {
  std::string time;  ///< time of the latest report, UTC
  /// epochs, steps: the totals of the whole run.
  std::optional<std::int64_t> epoch, epochs, step, steps;
  std::optional<double> loss, accuracy, samples_per_s;
};

/// One `warning` event.
struct RunWarning {
  std::string message, host;
  std::optional<std::int64_t> rank;
};

/// A restart of the run after `attempt` ended.
struct Restart {
  std::int64_t attempt = 0;
  std::string cause;               ///< a value of retry.on, or "requeue"
  std::int64_t restarts_left = 0;  ///< how many more restarts the run may have
  bool is_left_to_chain = false;   ///< the next job of the run's chain starts the run again
};

/// The contents of a run's record (events.jsonl), summed up: what dlrun knows about the run from
/// its events. Exists only in memory.
struct RunRecord {
  bool has_events = false;
  std::int64_t attempt = 0;  ///< the latest attempt, from 0
  std::string claimed_by;    ///< id of the job that claimed the run last
  std::string lead_host;
  std::int64_t ranks = 0;  ///< 0: not known yet
  std::string hosts;       ///< compressed node list of the ranks that joined
  /// All ranks have joined; with components, all ranks of leading_component.
  bool have_ranks_joined = false;
  bool has_checked_collectives = false;  ///< the ranks' check of collectives is done
  /// The number of nodes that are copying data before the programs start.
  std::int64_t staging_node_count = 0;
  /// The checks of health.preflight in the latest attempt, such as "gpu,nccl"; empty: none.
  std::string checks;
  std::vector<std::int64_t> missing_ranks;  ///< ranks that did not join in time
  std::optional<Progress> progress;
  std::string result;                       ///< a JSON object; empty if the program reported none
  std::optional<RankFailure> first_failed;  ///< in the latest attempt
  std::vector<RankFailure> failures;        ///< in the latest attempt, in order of time
  std::optional<Autopsy> autopsy;           ///< the autopsy of the latest attempt that hung
  std::vector<RunWarning> warnings;
  std::vector<Restart> restarts;
  std::vector<RecordedComponent> components;  ///< empty: the job has one program
  /// The first main component, whose progress is the progress of the run. Empty: no components.
  std::string leading_component;
  /// In the latest attempt, the programs got the warning before the time limit or a preemption
  /// (USR1).
  bool was_warned = false;
  Word<EndReason> attempt_end_reason;  ///< why the latest attempt ended; empty while it runs
  /// A signal ended the latest attempt, and Slurm gave no cause for it such as a preemption.
  bool was_signalled_without_cause = false;
  bool ended = false;  ///< there is an `ended` event that no later event undoes
  bool end_message_shows_failed_rank = false;  ///< the rank that failed first is in end_message
  /// A container could not be started in the latest attempt. The end of a rank, such as "code 127",
  /// then does not show the cause, but end_message does.
  bool container_failed = false;
  Word<EndState> end_state;
  std::string end_message, end_time;
  std::int64_t end_code = 0;
  std::string last_time;  ///< time of the last event
  /// The number of ignored lines: they are too long, have a wrong checksum or are no JSON object.
  /// Damaged lines after the last valid line count only for has_incomplete_end.
  std::size_t damaged_lines = 0;
  bool has_incomplete_end = false;  ///< the last line is incomplete or damaged
  /// Bytes in the middle that were not read, because the file is larger than any that lead
  /// writes.
  std::int64_t left_out_bytes = 0;
  std::size_t later_result_count = 0;  ///< number of `result` events after the first
};

/// Summarises the lines of a record. Never fails: skips events of later versions and damaged lines,
/// and counts the damaged lines (RunRecord::damaged_lines).
[[nodiscard]] RunRecord sum_up_events(std::string_view text);

/// Applies one more event. Events must be applied in the order of the file.
void add_event(RunRecord& record, const RecordedEvent& event);

/// Reads and summarises a run's record. Returns an empty record if the file does not exist. If the
/// file is larger than kLargestRecordBytes (common/run_events.h), reads only its beginning and its
/// end. Fails as open_untrusted() does, for example if the file is a link.
[[nodiscard]] Result<RunRecord> read_events(const std::filesystem::path& run);

/// Returns true if the record's last lines hold an `ended` that no later claim has undone. Reads
/// only the end of the file, for callers that ask often. Returns false if the file cannot be read.
[[nodiscard]] bool has_end(const std::filesystem::path& run);

}  // namespace dlrun
