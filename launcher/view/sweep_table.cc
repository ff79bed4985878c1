#include "launcher/view/sweep_table.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "common/json_or_null.h"
#include "common/json_read.h"
#include "common/quoting.h"
#include "common/text.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/spec/typed_value.h"
#include "launcher/view/run_text.h"
#include "launcher/view/status_json.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

struct Row {
  std::size_t number = 0;
  const SweepRecord::Point* point = nullptr;
  const RunStatus* status = nullptr;  ///< nullptr if the status cannot be read
  std::string error;
  Json result;  ///< the final result of the current run or of an earlier run of the point, or null
  /// The earlier run that `result` is from; empty if it is from the current run.
  std::filesystem::path result_of;
  /// The values in the table: those of the current run, even before its end, or else `result`.
  Json shown;
  bool shows_earlier_run = false;    ///< `shown` is from an earlier run
  std::optional<double> sort_value;  ///< the value by which the rows are sorted
};

/// Returns the name of the value by which rows are sorted if the user has not chosen one: the first
/// of kComparedResults that any point shows, or "point".
std::string default_sort_name(const std::vector<Row>& rows) {
  for (const std::string_view name : kComparedResults) {
    const bool has = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
      return row.shown.is_object() && row.shown.contains(name);
    });
    if (has) return std::string(name);
  }
  return "point";
}

/// Returns the latest loss and accuracy of the run, or null.
Json latest_values(const RunRecord& record) {
  Json json;
  if (const auto& progress = record.progress) {
    if (progress->loss) json["loss"] = *progress->loss;
    if (progress->accuracy) json["accuracy"] = *progress->accuracy;
  }
  return json.is_null() ? Json(nullptr) : json;
}

/// Sets the result of a row: that of the current run, or else that of the latest earlier run that
/// has one. runs: the runs of the point, oldest first.
void set_result(Row& row, const std::vector<std::filesystem::path>& runs) {
  row.result = json_read::object_of(row.status->facts.record.result).value_or(Json(nullptr));
  for (auto run = std::next(runs.rbegin()); run != runs.rend() && row.result.is_null(); ++run) {
    const auto record = read_events(*run);
    auto result = record ? json_read::object_of(record->result) : std::nullopt;
    if (!result) continue;
    row.result = std::move(*result);
    row.result_of = *run;
  }
}

/// Sets the values of a row in the table.
void set_shown(Row& row) {
  const bool has_current_result = row.result_of.empty() && !row.result.is_null();
  row.shown = has_current_result ? row.result : latest_values(row.status->facts.record);
  if (!row.shown.is_null() || row.result.is_null()) return;
  row.shown = row.result;
  row.shows_earlier_run = true;
}

std::optional<double> value_named(const Row& row, const SweepRecord& sweep,
                                  const std::string& name) {
  if (name == "point") return static_cast<double>(row.number);
  const auto key = std::find(sweep.keys.begin(), sweep.keys.end(), name);
  if (key != sweep.keys.end()) {
    const auto& value = row.point->values[static_cast<std::size_t>(key - sweep.keys.begin())];
    return value ? parse_double(*value) : std::nullopt;
  }
  return row.shown.is_object() ? json_read::number(row.shown, name.c_str()) : std::nullopt;
}

std::string state_of(const Row& row) {
  if (row.status == nullptr) return "unknown";
  return std::string(word(row.status->state)) + (row.status->may_be_outdated ? "?" : "");
}

/// Returns the last cell of a row: the reason if the point has failed, the progress if it is
/// running, or its results if it has completed. by: the name of a result that is left out, because
/// it has a column of its own.
std::string remark_of(const Row& row, const std::string& by) {
  if (row.status == nullptr) return printable(row.error);
  const RunRecord& record = row.status->facts.record;
  if (row.status->state == RunState::kCompleted || row.shows_earlier_run) {
    Json rest = row.shown;
    if (rest.is_object()) rest.erase(by);
    std::string text = rest.is_object() ? result_text(json_read::dump(rest)) : "";
    if (record.attempt_end_reason == EndReason::kStoppedEarly)
      text = printable(record.end_message) + (text.empty() ? "" : "; ") + text;
    if (!row.shows_earlier_run) return text;
    return text + (text.empty() ? "" : "; ") + "from an earlier run";
  }
  if (is_inactive(row.status->state)) return end_cause_text(*row.status);
  return record.progress ? progress_text(*record.progress) : printable(row.status->detail);
}

Json json_of(const IndexEntry& run, const SweepRecord& sweep, const Row& row,
             const std::filesystem::path& path) {
  Json json;
  json["point"] = row.number;
  json["run"] = fmt::format("{}/{}", run.id, row.number);
  Json values = Json::object();
  for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
    if (row.point->values[i])
      values[sweep.keys[i]] = typed_value(sweep.keys[i], *row.point->values[i]);
  }
  json["values"] = std::move(values);
  json["state"] = row.status != nullptr ? word(row.status->state) : "unknown";
  json["last_known"] = row.status != nullptr && row.status->may_be_outdated;
  json["job"] = row.status != nullptr && !row.status->job.id.empty() ? Json(row.status->job.id)
                                                                     : Json(nullptr);
  json["progress"] =
      row.status != nullptr ? progress_json(row.status->facts.record) : Json(nullptr);
  json["result"] = row.result;
  json["result_of"] = row.result.is_null()
                          ? Json(nullptr)
                          : Json((row.result_of.empty() ? path : row.result_of).string());
  json["detail"] = text_or_null(row.status != nullptr ? row.status->detail : row.error);
  json["path"] = path.string();
  return json;
}

void sort_rows(std::vector<Row>& rows, bool is_ascending) {
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    // Rows without a value go last.
    if (!a.sort_value || !b.sort_value)
      return a.sort_value.has_value() && !b.sort_value.has_value();
    return is_ascending ? *a.sort_value < *b.sort_value : *a.sort_value > *b.sort_value;
  });
}

using States = std::vector<Result<RunStatus>>;

/// Returns a row for each point, in the sweep's order. runs: the runs of each point, oldest first.
std::vector<Row> rows_of(const SweepRecord& sweep, const States& states,
                         const std::vector<std::vector<std::filesystem::path>>& runs) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < states.size(); ++i) {
    Row row;
    row.number = i;
    row.point = &sweep.points[i];
    if (states[i]) {
      row.status = &*states[i];
      set_result(row, runs[i]);
      set_shown(row);
    } else {
      row.error = states[i].error().message;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Returns the reason why the state of a point is only the last known one; empty if all are
/// current.
std::string reason_unreachable(const States& states) {
  std::string reason;
  for (const auto& state : states) {
    if (state && is_unreachable(*state)) reason = state->facts.why_unreachable;
  }
  return reason;
}

/// Returns true if points have started and none has a result, a loss or an accuracy to show.
bool lacks_results(const std::vector<Row>& rows) {
  const auto has_begun = [](const Row& row) {
    return row.status != nullptr && row.status->facts.record.has_events;
  };
  return std::all_of(rows.begin(), rows.end(),
                     [](const Row& row) { return row.shown.is_null(); }) &&
         std::any_of(rows.begin(), rows.end(), has_begun);
}

/// Returns a row for the table. by: the name of the value by which the rows are sorted.
SweepTableRow shown_row(const Row& row, const std::string& by) {
  SweepTableRow shown{row.number, {}, state_of(row), "", remark_of(row, by)};
  for (const auto& value : row.point->values) shown.values.push_back(printable(value.value_or("")));
  if (row.sort_value) shown.compared_value = fmt::format("{:.6g}", *row.sort_value);
  return shown;
}

}  // namespace

TableRows sweep_rows(const SweepTable& sweep) {
  const bool has_compared = !sweep.compared_result.empty();
  std::vector<std::string> titles{"POINT"};
  titles.insert(titles.end(), sweep.keys.begin(), sweep.keys.end());
  titles.emplace_back("STATE");
  if (has_compared) titles.push_back(sweep.compared_result);
  titles.emplace_back("");
  TableRows rows{titles};
  for (const SweepTableRow& row : sweep.rows) {
    std::vector<std::string> cells{std::to_string(row.number)};
    cells.insert(cells.end(), row.values.begin(), row.values.end());
    cells.push_back(row.state);
    if (has_compared) cells.push_back(row.compared_value);
    cells.push_back(row.remark);
    rows.push_back(std::move(cells));
  }
  return rows;
}

Result<SweepTable> sweep_table(const Env& env, const KnownServers& servers, const IndexEntry& run,
                               const SweepTableRequest& request) {
  if (!is_sweep(run.path))
    return fail(Errc::kUsage, "{}: is not a sweep; use `dlrun status {}`", run.id,
                printable(shell_quote(request.run_argument)));
  DLRUN_TRY_ASSIGN(const auto sweep, read_sweep(run.path));
  std::vector<std::filesystem::path> paths;
  std::vector<std::vector<std::filesystem::path>> runs;
  for (const auto& point : sweep.points) {
    runs.push_back(runs_of_point(point_path(run.path, point)));
    paths.push_back(runs.back().back());
  }
  const auto states = RunInspector(env, servers).inspect_all(paths);

  std::vector<Row> rows = rows_of(sweep, states, runs);
  const std::string by = request.sort.empty() ? default_sort_name(rows) : request.sort;
  for (Row& row : rows) row.sort_value = value_named(row, sweep, by);
  if (!request.sort.empty() && std::none_of(rows.begin(), rows.end(), [](const Row& row) {
        return row.sort_value.has_value();
      })) {
    return fail(Errc::kUsage,
                "--sort: no point has a numeric value of the name '{}' yet; give `point`, a key of "
                "the sweep with numeric values, or the name of a result",
                printable(request.sort));
  }
  sort_rows(rows, request.is_ascending ||
                      (!request.is_descending && (by == "point" || is_smaller_better(by))));
  SweepTable table;
  table.keys = sweep.keys;
  const bool has_column_already =
      by == "point" || std::find(sweep.keys.begin(), sweep.keys.end(), by) != sweep.keys.end();
  if (!has_column_already) table.compared_result = by;
  table.lacks_results = lacks_results(rows);
  table.overall = sum_up_points(states);
  table.unreachable_reason = reason_unreachable(states);
  if (request.limit && rows.size() > *request.limit) {
    table.hidden_count = rows.size() - *request.limit;
    rows.resize(*request.limit);
  }
  for (const Row& row : rows) {
    if (request.wants_json) {
      table.json.push_back(json_of(run, sweep, row, paths[row.number]));
    } else {
      table.rows.push_back(shown_row(row, by));
    }
  }
  return table;
}

}  // namespace dlrun
