#pragma once
// What a run's own record says: events.jsonl (runtime/ENVIRONMENT.md), summed up.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/result.h"
#include "launcher/runs/autopsy.h"

namespace dlrun {

struct RankFailure {
  std::int64_t rank = -1;  ///< -1: not known
  std::string host;
  std::int64_t code = 0;
  std::string signal;  ///< "SIGKILL"; empty: it exited
  std::string error;
};

struct Progress {
  std::string time;
  std::optional<std::int64_t> epoch, epochs, step, steps;
  std::optional<double> loss, accuracy, samples_per_s;
};

struct RunWarning {
  std::string message, host;
  std::optional<std::int64_t> rank;
};

/// Another start of the run, after attempt had ended.
struct Restart {
  std::int64_t attempt = 0;
  std::string cause;      ///< in the words of retry.on
  std::int64_t left = 0;  ///< of the budget, afterwards
};

/// The sum of all events of the latest attempt, and of the run.
struct RunRecord {
  bool has_events = false;
  std::int64_t attempt = 0;
  std::string claimed_at, claimed_by;  ///< UTC; the job's id
  std::string lead_host;
  std::int64_t ranks = 0;  ///< 0: not known yet
  std::string hosts;       ///< compressed node list of the ranks that joined
  bool joined = false;
  bool checked = false;  ///< the ranks' check of collectives is done
  std::string
      checks;  ///< "gpu,disk": what of the nodes is checked before ranks join; empty: nothing
  std::vector<std::int64_t> missing;  ///< ranks that did not say hello in time
  std::optional<Progress> progress;
  std::string result;  ///< a JSON object, empty where the program reported none
  std::optional<RankFailure> first_failed;  ///< of the latest attempt
  std::vector<RankFailure> failed;          ///< of the latest attempt, in order
  std::optional<Autopsy> autopsy;           ///< of the latest attempt that hung
  std::vector<RunWarning> warnings;
  std::vector<Restart> restarts;
  std::string attempt_reason;  ///< of the latest attempt's end, empty while it runs
  bool ended = false;          ///< the latest event that says anything about it is `ended`
  std::string end_state, end_message, end_time;
  std::int64_t end_code = 0;
  std::string last_time;          ///< of the last event
  std::size_t damaged_lines = 0;  ///< lines whose checksum does not fit; they count for nothing
  bool has_torn_tail = false;
  std::int64_t left_out_bytes =
      0;  ///< in the middle of a file that is larger than lead makes one; not read
  std::size_t results = 0;  ///< `result` events after the first
};

/// Never fails: events of a later version and damaged lines are passed over, and counted.
[[nodiscard]] RunRecord sum_up_events(std::string_view text);

/// One more event, in the order of the file.
void add_event(RunRecord& record, const nlohmann::ordered_json& event);

/// No file: an empty record. A file larger than kLargestRecordBytes (common/run_events.h) is read
/// at both ends.
[[nodiscard]] Result<RunRecord> read_events(const std::filesystem::path& run);

/// True when the record's last lines hold an `ended` that no later claim has undone. Reads the end
/// of the file only, for those who look often.
[[nodiscard]] bool has_end(const std::filesystem::path& run);

}  // namespace dlrun
