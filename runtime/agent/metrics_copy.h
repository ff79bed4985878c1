#pragma once
// Copies the values of metrics.jsonl, to which dlrun's trainer writes (metrics_follower.h), into a
// run's record for an MLflow server (common/mlflow.h). The reports that lead passes on are not
// enough: lead passes on at most one a second, so the record of a short run would lack most of the
// values.

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "common/mlflow.h"
#include "common/result.h"
#include "runtime/agent/metrics_follower.h"

namespace dlrun::agent {

/// The part of metrics.jsonl that earlier jobs of a run have copied.
struct CopyProgress {
  std::optional<MetricsPosition>
      position{};                           ///< end of the copied lines; nullopt: no line is copied
  std::optional<std::int64_t> last_step{};  ///< the step of the last copied line
};

class MetricsCopier {
 public:
  /// Continues where an earlier job of the run has stopped: the run's file track/mlflow.copied
  /// contains the position. A job that is killed cannot copy its last lines, so the next one does.
  explicit MetricsCopier(const std::filesystem::path& run);

  /// Copies the lines that metrics.jsonl has gained. Fails as MetricsReader::read_part() and
  /// MlflowRecord::add_line() do. The next call continues with the line that could not be added.
  [[nodiscard]] Result<> copy_new_lines(const MlflowRecord& record);
  /// Returns the step of the last line that this or an earlier job copied; nullopt if no line was
  /// copied.
  [[nodiscard]] std::optional<std::int64_t> last_step() const { return last_step_; }

 private:
  MetricsCopier(const std::filesystem::path& run, const CopyProgress& before);
  /// Writes the end of the copied lines into position_file_, for the next job.
  void save_position();

  std::filesystem::path position_file_;
  std::optional<MetricsPosition> saved_position_;
  MetricsReader reader_;
  std::deque<MetricsLine> waiting_lines_;  ///< lines that were read and are not copied yet
  std::optional<std::int64_t> last_step_;
};

/// Adds a message of lead to the record: values, or the end of the run. With a copier, first copies
/// the new lines of metrics.jsonl. They contain the values of lead's messages, so such a message is
/// then left out. A message with final values is added, with the step of the last copied line. If
/// the copy fails, every message is added, and the function fails as
/// MetricsCopier::copy_new_lines() does. Also fails as MlflowRecord::add_line() does. copier:
/// nullptr if lead's messages are the only source of values.
[[nodiscard]] Result<> add_to_mlflow_record(const MlflowRecord& record,
                                            nlohmann::ordered_json message, MetricsCopier* copier);

}  // namespace dlrun::agent
