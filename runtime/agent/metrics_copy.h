#pragma once
// Copies the values of metrics.jsonl, to which dlrun's trainer writes (metrics_follower.h), into
// the record of a run for an MLflow server. Lead's reports have at most one value a second, so a
// short run would lose most of its values.

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "common/mlflow.h"
#include "common/result.h"
#include "runtime/agent/metrics_follower.h"

namespace dlrun::agent {

/// The lines of metrics.jsonl that the record of a run has.
struct CopiedMetrics {
  std::optional<MetricsPlace> place{};
  std::optional<std::int64_t> last_step{};
};

class MetricsCopy {
 public:
  /// Continues where an earlier job of the run has stopped: the folder `track` of the run keeps the
  /// place (mlflow.copied). A job that is killed cannot copy its last lines.
  explicit MetricsCopy(const std::filesystem::path& run);

  /// Copies the lines that metrics.jsonl has gained. Fails if the file cannot be read, or if the
  /// record takes no lines. The next call continues with the line that the record did not take.
  [[nodiscard]] Result<> copy_new(const MlflowRecord& record);
  /// Returns the step of the last line that was copied.
  [[nodiscard]] std::optional<std::int64_t> last_step() const { return last_step_; }

 private:
  MetricsCopy(const std::filesystem::path& run, const CopiedMetrics& before);
  /// Keeps the place behind the copied lines for the next job.
  void save_place();

  std::filesystem::path place_file_;
  std::optional<MetricsPlace> saved_;
  MetricsReader reader_;
  std::deque<MetricsLine> waiting_;  ///< lines that were read and are not copied yet
  std::optional<std::int64_t> last_step_;
};

/// Keeps a message of lead in the record: values, or the end of the run. copy: nullptr, or the
/// source of the values; they are then copied first, and only final values of lead's messages are
/// kept, at the step of the last line that was copied. If the copy fails, the values of lead's
/// message are kept, too. Fails as MetricsCopy::copy_new() does, after it has kept the message.
[[nodiscard]] Result<> keep_for_mlflow(const MlflowRecord& record, nlohmann::ordered_json message,
                                       MetricsCopy* copy);

}  // namespace dlrun::agent
