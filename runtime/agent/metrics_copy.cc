#include "runtime/agent/metrics_copy.h"

#include <cmath>
#include <utility>

namespace dlrun::agent {

MetricsCopy::MetricsCopy(const std::filesystem::path& run, int first_attempt)
    : reader_(run / "metrics.jsonl", first_attempt, MetricsStart::kBeginning) {}

Result<> MetricsCopy::copy_new(const MlflowRecord& record) {
  for (;;) {
    DLRUN_TRY_ASSIGN(const MetricsPart part, reader_.read_part());
    for (const MetricsLine& line : part.lines) {
      nlohmann::ordered_json values = nlohmann::ordered_json::object();
      for (const Scalar& scalar : line.scalars) values[scalar.tag] = scalar.value;
      DLRUN_TRY(record.add_line({{"t", std::llround(line.wall_s * 1000)},
                                 {"step", line.step},
                                 {"m", std::move(values)}}));
      last_step_ = line.step;
    }
    if (!part.has_more) return {};
  }
}

Result<> keep_for_mlflow(const MlflowRecord& record, nlohmann::ordered_json message,
                         MetricsCopy* copy) {
  const auto copied = copy != nullptr ? copy->copy_new(record) : Result<>();
  const bool is_final = message.erase("final") > 0;
  // The trainer's final report has no step, and lead knows only the steps of the reports that it
  // got. The file has the last step of the training.
  if (is_final && copy != nullptr && copied && copy->last_step())
    message["step"] = *copy->last_step();
  const bool is_copied = copy != nullptr && !is_final && message.contains("m");
  if (!is_copied) DLRUN_TRY(record.add_line(message));
  return copied;
}

}  // namespace dlrun::agent
