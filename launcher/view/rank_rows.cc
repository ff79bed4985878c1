#include "launcher/view/rank_rows.h"

#include <algorithm>

#include "common/columns.h"
#include "common/text.h"
#include "common/units.h"

namespace dlrun {
namespace {

std::string memory_of_gpus(const RankSample& row) {
  if (!row.gpu_used_bytes) return "-";
  return row.gpu_total_bytes ? fmt::format("{} / {}", memory_text(*row.gpu_used_bytes),
                                           memory_text(*row.gpu_total_bytes))
                             : memory_text(*row.gpu_used_bytes);
}

std::string mark_text(const RankSample& row) {
  switch (row.mark) {
    case RankMark::kSilent:
      return fmt::format("silent for {}", duration_text(static_cast<double>(row.age_s)));
    case RankMark::kSlow:
      return row.lag > 0 ? fmt::format("slow: {} step{} behind", row.lag, row.lag == 1 ? "" : "s")
                         : "slow: others wait";
    case RankMark::kIdle:
      return "idle";
    case RankMark::kMuchMemory:
      return "much memory";
    case RankMark::kNone:
      return "";
  }
  return "";
}

/// Says which of the optional columns the table has.
struct OptionalColumns {
  bool has_gpu = false, has_gpu_memory = false, has_step = false, has_work = false;
};

OptionalColumns columns_with_values(const std::vector<RankSample>& rows) {
  OptionalColumns columns;
  for (const RankSample& row : rows) {
    columns.has_gpu = columns.has_gpu || row.gpu_percent.has_value();
    columns.has_gpu_memory = columns.has_gpu_memory || row.gpu_used_bytes.has_value();
    columns.has_step = columns.has_step || row.step.has_value();
    columns.has_work = columns.has_work || row.work_ms.has_value();
  }
  return columns;
}

std::vector<std::string> cells_of(const RankSample& row, const OptionalColumns& columns,
                                  const std::optional<std::int64_t>& newest_step) {
  constexpr std::size_t kNodeWidth = 20;
  std::vector<std::string> cells{std::to_string(row.rank), cut(printable(row.node), kNodeWidth)};
  cells.push_back(row.cpu ? cores_text(*row.cpu) : "-");
  cells.push_back(row.rss_bytes ? memory_text(*row.rss_bytes) : "-");
  if (columns.has_gpu)
    cells.push_back(row.gpu_percent ? whole_percent_text(*row.gpu_percent) : "-");
  if (columns.has_gpu_memory) cells.push_back(memory_of_gpus(row));
  const auto& step = row.rank == 0 && newest_step ? newest_step : row.step;
  if (columns.has_step) cells.push_back(step ? std::to_string(*step) : "-");
  if (columns.has_work) cells.push_back(row.work_ms ? fmt::format("{:.4g} ms", *row.work_ms) : "-");
  cells.push_back(mark_text(row));
  return cells;
}

}  // namespace

RankRows rank_rows(const RankSnapshot& ranks, const std::optional<std::int64_t>& newest_step,
                   std::size_t most) {
  const OptionalColumns columns = columns_with_values(ranks.rows);
  RankRows table;
  table.titles = {"RANK", "NODE", "CPU", "MEMORY"};
  if (columns.has_gpu) table.titles.emplace_back("GPU");
  if (columns.has_gpu_memory) table.titles.emplace_back("GPU MEMORY");
  if (columns.has_step) table.titles.emplace_back("STEP");
  if (columns.has_work) table.titles.emplace_back("WORK/STEP");
  table.titles.emplace_back("");
  auto sorted = ranks.outliers_first();
  sorted.resize(std::min(most, sorted.size()));
  for (const RankSample* row : sorted)
    table.rows.push_back({cells_of(*row, columns, newest_step), row->mark});
  table.hidden_count = ranks.rows.size() - table.rows.size();
  const std::size_t marked_count = ranks.rows.size() - ranks.count(RankMark::kNone);
  table.hidden_marked_count = marked_count - std::min(marked_count, table.rows.size());
  return table;
}

}  // namespace dlrun
