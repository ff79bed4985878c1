#pragma once
// Sends the record of a run to an MLflow server (track.mlflow) over its REST API 2.0. The folder
// RUN/track, which only its owner can enter, holds these files:
//
//   mlflow.json    the server and the run, MlflowRun; written once
//   mlflow.jsonl   the values, one JSON object per line: {"t": ms, "step": N, "m": {NAME: NUMBER}},
//                  and {"t": ms, "status": "FINISHED"} at the end
//   mlflow.state   {"run_id", "sent": bytes of mlflow.jsonl that the server has, "skipped": number
//                  of lines that are too long to be sent, "has_params": the server has the
//                  parameters, "has_origin": the server has the tags from provenance.json}
//   mlflow.copied  {"inode", "offset", "step"}: the lines of metrics.jsonl that mlflow.jsonl has;
//                  only with dlrun's trainer (runtime/agent/metrics_copy.h)
//   mlflow.lock    locked by the process that sends
//
// A sender may repeat any request: it finds a run on the server by the tag `dlrun.run`, and a
// server with a database ignores a value that it has already. A lost reply therefore never causes a
// second run. A value that was sent again appears twice only on a server that keeps its values in
// files.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/curl_process.h"
#include "common/env.h"
#include "common/record_words.h"
#include "common/result.h"

namespace dlrun {

/// The run of an MLflow server that belongs to a run of dlrun.
struct MlflowRun {
  std::string url{};          ///< the address of the server, without a final '/'
  std::string experiment{};   ///< the name of the experiment
  std::string secret_name{};  ///< the name of the secret that holds the token; empty: none
  std::string run{};          ///< the id of dlrun's run
  std::string job{}, cluster{};
  std::int64_t start_ms = 0;  ///< milliseconds since 1970

  [[nodiscard]] nlohmann::ordered_json to_json() const;
  [[nodiscard]] static MlflowRun of_json(const nlohmann::ordered_json& object);
};

/// Returns the line of mlflow.jsonl for the end of a run. t_ms: milliseconds since 1970.
[[nodiscard]] nlohmann::ordered_json mlflow_end_line(EndState state, std::int64_t t_ms);

/// The longest time for one request of a job to an MLflow server.
inline constexpr std::chrono::seconds kMlflowRequestLimit{5};

struct SyncReport {
  std::size_t values_sent = 0;  ///< values that the server got in this call
  bool is_complete = true;      ///< the server has the whole record
  std::string mlflow_run_id{};  ///< the id of the run on the server; empty: the server has no run
                                ///< for this record yet
  std::string problem{};        ///< the reason why the server lacks values; contains no secret
};

/// The end that sync() adds to a record without an end. A record lacks its end, for example, if
/// lead was killed.
struct MissingEnd {
  EndState state = EndState::kFailed;
  std::int64_t t_ms = 0;  ///< milliseconds since 1970
};

/// The record of one run in RUN/track.
class MlflowRecord {
 public:
  explicit MlflowRecord(const std::filesystem::path& run) : run_(run), folder_(run / "track") {}

  /// Returns true if the run has a record for MLflow.
  [[nodiscard]] bool exists() const;
  /// Creates the folder and mlflow.json, unless an earlier attempt has created them.
  [[nodiscard]] Result<> create(const MlflowRun& mlflow_run) const;
  /// Reads mlflow.json. Fails with kNotFound if there is none, and with kInvalid if it is damaged,
  /// belongs to another user, or is in a folder to which other users can write.
  [[nodiscard]] Result<MlflowRun> read_run() const;
  /// Adds a line to mlflow.jsonl. Fails with kRefused if the file is larger than kLargestBytes,
  /// with kInvalid if it is not a regular file, and with kIo.
  [[nodiscard]] Result<> add_line(const nlohmann::ordered_json& line) const;
  /// Returns true if the last complete line of mlflow.jsonl has the end of the run. Fails if the
  /// file cannot be read.
  [[nodiscard]] Result<bool> has_end() const;

  /// Sends the parts of the record that the server does not have yet: creates the server's run, and
  /// sends the parameters, the tags, the values in batches, and the end. token: for the header
  /// Authorization; empty: none. may_continue: called before each request; false ends the call.
  /// Only one process sends at a time. If another process is sending, the report has a problem. On
  /// a file system without locks, two processes may send at the same time. The server may then
  /// make two runs for this record, and a value may appear twice, as described above.
  /// missing_end: sync() first adds this end to mlflow.jsonl, unless has_end(). Pass an end only
  /// after all processes of the job have ended. limit: the longest time for one request.
  [[nodiscard]] SyncReport sync(const Env& env, const std::string& token,
                                const std::function<bool()>& may_continue,
                                const std::optional<MissingEnd>& missing_end = {},
                                std::chrono::seconds limit = kMlflowRequestLimit) const;

  /// Size in bytes of mlflow.jsonl beyond which add_line() fails.
  static constexpr std::size_t kLargestBytes = 256U << 20U;

 private:
  /// Adds the end to mlflow.jsonl unless has_end(). The caller holds the lock.
  [[nodiscard]] Result<> add_missing_end(const MissingEnd& end) const;
  /// Appends a line to mlflow.jsonl in one write. If the file ends with an incomplete line, first
  /// ends that line. Fails with kRefused if the file is larger than limit_bytes.
  [[nodiscard]] Result<> append(const std::string& line, std::size_t limit_bytes) const;

  std::filesystem::path run_, folder_;
};

}  // namespace dlrun
