#include "runtime/agent/metrics_copy.h"

#include <cmath>
#include <iterator>
#include <utility>

namespace dlrun::agent {
namespace {

nlohmann::ordered_json record_line(const MetricsLine& line) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const Scalar& scalar : line.scalars) values[scalar.tag] = scalar.value;
  return {{"t", std::llround(line.wall_s * 1000)}, {"step", line.step}, {"m", std::move(values)}};
}

}  // namespace

MetricsCopy::MetricsCopy(const std::filesystem::path& run, int first_attempt)
    : reader_(run / "metrics.jsonl", first_attempt, MetricsStart::kBeginning) {}

Result<> MetricsCopy::copy_new(const MlflowRecord& record) {
  for (bool has_more = true;;) {
    // Lines that the record did not take in an earlier call come first: the reader returns each
    // line once.
    for (; !waiting_.empty(); waiting_.pop_front()) {
      DLRUN_TRY(record.add_line(record_line(waiting_.front())));
      last_step_ = waiting_.front().step;
    }
    if (!has_more) return {};
    DLRUN_TRY_ASSIGN(MetricsPart part, reader_.read_part());
    has_more = part.has_more;
    waiting_.assign(std::make_move_iterator(part.lines.begin()),
                    std::make_move_iterator(part.lines.end()));
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
  const bool is_copied = copy != nullptr && copied && !is_final && message.contains("m");
  if (!is_copied) DLRUN_TRY(record.add_line(message));
  return copied;
}

}  // namespace dlrun::agent
