#include "runtime/agent/metrics_copy.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "common/files.h"
#include "common/json_read.h"
#include "common/untrusted_file.h"

namespace dlrun::agent {
namespace {

nlohmann::ordered_json line_for_record(const MetricsLine& line) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const Scalar& scalar : line.scalars) values[scalar.tag] = scalar.value;
  return {{"t", std::llround(line.wall_s * 1000)}, {"step", line.step}, {"m", std::move(values)}};
}

std::filesystem::path position_file_of(const std::filesystem::path& run) {
  return run / "track" / "mlflow.copied";
}

/// Returns how far earlier jobs of the run have copied. If the file is missing or damaged, no line
/// counts as copied.
CopyProgress copied_before(const std::filesystem::path& run) {
  constexpr std::size_t kLargestFileBytes = 4096;
  const auto text = read_untrusted(position_file_of(run), kLargestFileBytes, Links::kRefuse);
  const auto object = text ? json_read::object_of(*text) : std::nullopt;
  if (!object) return {};
  CopyProgress copied{.last_step = json_read::integer(*object, "step")};
  const auto inode = json_read::integer(*object, "inode");
  const auto offset = json_read::integer(*object, "offset");
  if (inode && offset) copied.position = MetricsPosition{static_cast<ino_t>(*inode), *offset};
  return copied;
}

}  // namespace

MetricsCopier::MetricsCopier(const std::filesystem::path& run)
    : MetricsCopier(run, copied_before(run)) {}

MetricsCopier::MetricsCopier(const std::filesystem::path& run, const CopyProgress& before)
    : position_file_(position_file_of(run)),
      saved_position_(before.position),
      reader_(run / "metrics.jsonl", before.position),
      last_step_(before.last_step) {}

void MetricsCopier::save_position() {
  const auto position = reader_.position();
  if (!position || position == saved_position_) return;
  nlohmann::ordered_json object{{"inode", static_cast<std::int64_t>(position->inode)},
                                {"offset", static_cast<std::int64_t>(position->offset)}};
  if (last_step_) object["step"] = *last_step_;
  // If this write fails, the next job copies some lines again. MLflow ignores a value that it
  // already has.
  if (write_file_atomic(position_file_, json_read::dump(object))) saved_position_ = position;
}

Result<> MetricsCopier::copy_new_lines(const MlflowRecord& record) {
  for (bool has_more = true;;) {
    // Lines that the record did not take in an earlier call come first: the reader returns each
    // line once.
    for (; !waiting_lines_.empty(); waiting_lines_.pop_front()) {
      DLRUN_TRY(record.add_line(line_for_record(waiting_lines_.front())));
      last_step_ = waiting_lines_.front().step;
    }
    if (!has_more) break;
    DLRUN_TRY_ASSIGN(MetricsPart part, reader_.read_part());
    has_more = part.has_more;
    waiting_lines_.assign(std::make_move_iterator(part.lines.begin()),
                          std::make_move_iterator(part.lines.end()));
  }
  save_position();
  return {};
}

Result<> add_to_mlflow_record(const MlflowRecord& record, nlohmann::ordered_json message,
                              MetricsCopier* copier) {
  const auto copy_result = copier != nullptr ? copier->copy_new_lines(record) : Result<>();
  const bool is_final = message.erase("final") > 0;
  // The trainer's final report has no step, and lead knows only the steps of the reports that it
  // got. metrics.jsonl has the last step of the training.
  if (is_final && copier != nullptr && copy_result && copier->last_step())
    message["step"] = *copier->last_step();
  const bool is_redundant = copier != nullptr && copy_result && !is_final && message.contains("m");
  if (!is_redundant) DLRUN_TRY(record.add_line(message));
  return copy_result;
}

}  // namespace dlrun::agent
