#include "launcher/runs/ranks.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "common/files.h"
#include "common/json_read.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFileLimitBytes = 16U << 20U;
constexpr std::int64_t kSilentAfterS = 15;  ///< seconds: five heartbeats
constexpr double kIdleFraction = 0.25;      ///< a rank below this fraction of the median is idle
/// A rank can only be idle if most ranks work: if the median over all ranks is at least this. The
/// first number is for the busy cores of a rank, the second for the use of its GPUs in percent.
constexpr double kBusyCores = 0.2, kBusyPercent = 40;
/// A rank uses much memory if it uses more than the median times the factor, and more than the
/// median plus the excess.
constexpr double kMuchMemoryFactor = 1.5, kMuchMemoryExcessBytes = 1e9;

/// Returns the median of the known values; for an even number of values, the upper of the two in
/// the middle. Returns nullopt if fewer than two values are known.
template <typename Get>
std::optional<double> upper_median(const std::vector<RankSample>& rows, Get get) {
  std::vector<double> values;
  for (const RankSample& row : rows) {
    if (const auto value = get(row)) values.push_back(*value);
  }
  if (values.size() < 2) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void mark_outliers(std::vector<RankSample>& rows) {
  const auto cpu = upper_median(rows, [](const RankSample& row) { return row.cpu; });
  const auto gpu = upper_median(rows, [](const RankSample& row) { return row.gpu_percent; });
  const auto rss = upper_median(rows, [](const RankSample& row) { return row.rss_bytes; });
  const auto is_idle = [](const std::optional<double>& value, const std::optional<double>& usual,
                          double busy) {
    return value && usual && *usual >= busy && *value < kIdleFraction * *usual;
  };
  for (RankSample& row : rows) {
    if (row.age_s > kSilentAfterS) {
      row.mark = RankMark::kSilent;
    } else if (row.is_slow) {
      row.mark = RankMark::kSlow;
    } else if (is_idle(row.gpu_percent, gpu, kBusyPercent) || is_idle(row.cpu, cpu, kBusyCores)) {
      row.mark = RankMark::kIdle;
    } else if (row.rss_bytes && rss && *row.rss_bytes > kMuchMemoryFactor * *rss &&
               *row.rss_bytes > *rss + kMuchMemoryExcessBytes) {
      row.mark = RankMark::kMuchMemory;
    }
  }
}

/// The index of each column; -1: missing.
struct Columns {
  int rank = -1, node = -1, cpu = -1, rss = -1, gpu = -1, gpu_used = -1, gpu_total = -1, step = -1,
      lag = -1, work = -1, slow = -1, age = -1;

  explicit Columns(const Json& names) {
    const std::array<std::pair<std::string_view, int*>, 12> known{{{"rank", &rank},
                                                                   {"node", &node},
                                                                   {"cpu", &cpu},
                                                                   {"rss_bytes", &rss},
                                                                   {"gpu", &gpu},
                                                                   {"gpu_used_bytes", &gpu_used},
                                                                   {"gpu_total_bytes", &gpu_total},
                                                                   {"step", &step},
                                                                   {"lag", &lag},
                                                                   {"work_ms", &work},
                                                                   {"slow", &slow},
                                                                   {"age_s", &age}}};
    for (std::size_t at = 0; at < names.size(); ++at) {
      if (!names[at].is_string()) continue;
      for (const auto& [name, column] : known) {
        if (names[at].get_ref<const std::string&>() == name) *column = static_cast<int>(at);
      }
    }
  }
};

const Json* cell(const Json& row, int column) {
  return column >= 0 && static_cast<std::size_t>(column) < row.size()
             ? &row[static_cast<std::size_t>(column)]
             : nullptr;
}
/// Returns a measured amount; nullopt for a negative number, which was not measured.
std::optional<double> amount(const Json& row, int column) {
  const Json* value = cell(row, column);
  if (value == nullptr || !value->is_number() || value->get<double>() < 0) return std::nullopt;
  return value->get<double>();
}
std::optional<std::int64_t> integer(const Json& row, int column) {
  const Json* value = cell(row, column);
  return value != nullptr && value->is_number_integer() ? std::optional(value->get<std::int64_t>())
                                                        : std::nullopt;
}

}  // namespace

std::string_view word(RankMark mark) {
  switch (mark) {
    case RankMark::kNone:
      return "";
    case RankMark::kSilent:
      return "silent";
    case RankMark::kSlow:
      return "slow";
    case RankMark::kIdle:
      return "idle";
    case RankMark::kMuchMemory:
      return "large";
  }
  return "";
}

std::size_t RankSnapshot::count(RankMark mark) const {
  return static_cast<std::size_t>(std::count_if(
      rows.begin(), rows.end(), [mark](const RankSample& row) { return row.mark == mark; }));
}

std::vector<const RankSample*> RankSnapshot::outliers_first() const {
  std::vector<const RankSample*> sorted;
  sorted.reserve(rows.size());
  for (const RankSample& row : rows) sorted.push_back(&row);
  const auto sort_key = [](const RankSample* row) {
    const int mark = row->mark == RankMark::kNone ? 100 : static_cast<int>(row->mark);
    const bool is_slow = row->mark == RankMark::kSlow;
    return std::tuple(mark, is_slow ? -row->lag : 0, is_slow ? -row->work_ms.value_or(0) : 0.0,
                      row->rank);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const RankSample* a, const RankSample* b) { return sort_key(a) < sort_key(b); });
  return sorted;
}

std::optional<RankSnapshot> parse_ranks(std::string_view text) {
  const auto json = json_read::object_of(text);
  if (!json) return std::nullopt;
  const auto columns = json->find("columns"), rows = json->find("rows"),
             nodes = json->find("nodes");
  if (columns == json->end() || !columns->is_array() || rows == json->end() || !rows->is_array())
    return std::nullopt;
  const Columns column(*columns);
  RankSnapshot snapshot;
  snapshot.time = json_read::text(*json, "time");
  snapshot.attempt = json_read::integer(*json, "attempt").value_or(0);
  snapshot.ranks = json_read::integer(*json, "ranks").value_or(0);
  snapshot.rows.reserve(rows->size());
  for (const Json& row : *rows) {
    const auto rank = row.is_array() ? integer(row, column.rank) : std::nullopt;
    if (!rank) continue;
    RankSample sample;
    sample.rank = *rank;
    const auto node = integer(row, column.node);
    if (node && *node >= 0 && nodes != json->end() && nodes->is_array() &&
        static_cast<std::size_t>(*node) < nodes->size() &&
        (*nodes)[static_cast<std::size_t>(*node)].is_string()) {
      sample.node = (*nodes)[static_cast<std::size_t>(*node)].get<std::string>();
    }
    sample.cpu = amount(row, column.cpu);
    sample.rss_bytes = amount(row, column.rss);
    sample.gpu_percent = amount(row, column.gpu);
    sample.gpu_used_bytes = amount(row, column.gpu_used);
    sample.gpu_total_bytes = amount(row, column.gpu_total);
    sample.step = integer(row, column.step);
    sample.work_ms = amount(row, column.work);
    sample.lag = integer(row, column.lag).value_or(0);
    sample.age_s = integer(row, column.age).value_or(0);
    const Json* slow = cell(row, column.slow);
    sample.is_slow = slow != nullptr && slow->is_boolean() && slow->get<bool>();
    snapshot.rows.push_back(std::move(sample));
  }
  mark_outliers(snapshot.rows);
  return snapshot;
}

Result<std::optional<RankSnapshot>> read_ranks(const std::filesystem::path& run) {
  const auto text = read_untrusted(run / "ranks.json", kFileLimitBytes, Links::kRefuse);
  if (!text && text.error().code == Errc::kNotFound) return std::nullopt;
  if (!text) return tl::unexpected(text.error());
  return parse_ranks(*text);
}

}  // namespace dlrun
