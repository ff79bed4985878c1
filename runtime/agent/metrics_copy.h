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

class MetricsCopy {
 public:
  /// first_attempt: lines of earlier attempts are not copied, because an earlier job did that.
  MetricsCopy(const std::filesystem::path& run, int first_attempt);

  /// Copies the lines that metrics.jsonl has gained. Fails if the file cannot be read, or if the
  /// record takes no lines. The next call continues with the line that the record did not take.
  [[nodiscard]] Result<> copy_new(const MlflowRecord& record);
  /// Returns the step of the last line that was copied.
  [[nodiscard]] std::optional<std::int64_t> last_step() const { return last_step_; }

 private:
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
