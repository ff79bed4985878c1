#include "launcher/runs/sweep_record.h"

#include <sys/stat.h>

#include <algorithm>

#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/run_directory.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestSweepBytes = 16U << 20U;
constexpr std::size_t kLargestSuccessorBytes = 64U << 10U;
constexpr const char* kSweepFile = "sweep.json";
constexpr const char* kSuccessorFile = "resubmitted";

std::optional<std::size_t> natural_number(const nlohmann::ordered_json& object, const char* key) {
  const auto number = json_read::integer(object, key);
  return number && *number >= 0 ? std::optional(static_cast<std::size_t>(*number)) : std::nullopt;
}

}  // namespace

bool is_sweep(const std::filesystem::path& run) {
  std::error_code error;
  return std::filesystem::exists(run / kSweepFile, error);
}

Result<SweepRecord> read_sweep(const std::filesystem::path& run) {
  const auto path = run / kSweepFile;
  DLRUN_TRY_ASSIGN(const auto text, read_untrusted(path, kLargestSweepBytes, Links::kRefuse));
  const auto json = json_read::object_of(text);
  const auto damaged = [&] {
    return fail(Errc::kInvalid, "{}: is damaged: it does not list a sweep's points",
                printable(path.string()));
  };
  if (!json) return damaged();
  SweepRecord sweep;
  sweep.array_count = natural_number(*json, "arrays").value_or(0);
  sweep.max_parallel = json_read::integer(*json, "max_parallel");
  sweep.pack = std::max<std::size_t>(natural_number(*json, "pack").value_or(1), 1);
  const auto keys = json->find("keys"), points = json->find("points");
  if (keys == json->end() || points == json->end() || !keys->is_array() || !points->is_array())
    return damaged();
  for (const auto& key : *keys) {
    if (!key.is_string()) return damaged();
    sweep.keys.push_back(key.get<std::string>());
  }
  for (const auto& one : *points) {
    // The key "task" holds the point's index in its array. With `pack`, Slurm's task has another
    // number; see SweepRecord::task_of().
    const auto array = natural_number(one, "array"), index = natural_number(one, "task");
    const auto values = one.is_object() ? one.find("values") : one.end();
    if (!array || !index || *array >= sweep.array_count || values == one.end() ||
        !values->is_array() || values->size() != sweep.keys.size())
      return damaged();
    SweepRecord::Point& point = sweep.points.emplace_back();
    point.array = *array;
    point.point_in_array = *index;
    for (const auto& value : *values)
      point.values.push_back(value.is_string() ? std::optional(value.get<std::string>())
                                               : std::nullopt);
  }
  // An array has at least one point. Without this check, a damaged file could make later loops
  // over the arrays run for long.
  if (sweep.points.empty() || sweep.array_count > sweep.points.size()) return damaged();
  return sweep;
}

std::string sweep_json(const SweepRecord& sweep) {
  using Json = nlohmann::ordered_json;
  Json points = Json::array();
  for (const SweepRecord::Point& point : sweep.points) {
    Json values = Json::array();
    for (const auto& value : point.values) values.push_back(value ? Json(*value) : Json(nullptr));
    // "task" is the index in the array, not task_of(); see read_sweep().
    points.push_back(
        {{"array", point.array}, {"task", point.point_in_array}, {"values", std::move(values)}});
  }
  Json json{{"keys", sweep.keys}, {"arrays", sweep.array_count}};
  if (sweep.max_parallel) json["max_parallel"] = *sweep.max_parallel;
  if (sweep.pack > 1) json["pack"] = sweep.pack;
  json["points"] = std::move(points);
  return json_read::dump(json) + "\n";
}

std::filesystem::path array_path(const std::filesystem::path& sweep, std::size_t array) {
  return sweep / fmt::format("array-{}", array);
}

std::filesystem::path point_path(const std::filesystem::path& sweep,
                                 const SweepRecord::Point& point) {
  return array_path(sweep, point.array) / std::to_string(point.point_in_array);
}

std::string describe(const SweepRecord& sweep, const SweepRecord::Point& point) {
  std::string text;
  for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
    if (point.values[i])
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", sweep.keys[i], *point.values[i]);
  }
  return text;
}

std::optional<std::filesystem::path> sweep_of_point(const std::filesystem::path& point) {
  const auto array = point.parent_path();
  if (!parse_int(point.filename().string()) || !array.filename().string().starts_with("array-"))
    return std::nullopt;
  return is_sweep(array.parent_path()) ? std::optional(array.parent_path()) : std::nullopt;
}

Result<IndexEntry> point_entry(const IndexEntry& sweep, std::size_t number) {
  DLRUN_TRY_ASSIGN(const auto record, read_sweep(sweep.path));
  if (number >= record.points.size()) {
    return fail(Errc::kNotFound, "{} has no point {}: its points are 0 to {}", sweep.id, number,
                record.points.size() - 1);
  }
  return IndexEntry{fmt::format("{}/{}", sweep.id, number), sweep.name,
                    current_run_of(point_path(sweep.path, record.points[number])), sweep.created};
}

namespace {

std::optional<uid_t> foreign_uid(const std::filesystem::path& run) {
  const auto owner = foreign_owner_of_path(run);
  return owner ? std::optional(owner->uid) : std::nullopt;
}

/// Returns true if one user owns a run and its successor, the successor is no link, and
/// foreign_owner_of_path() returns the same user, or no user, for both paths. Without this check,
/// the owner of a point, or of a link to it, could make any run the successor, even a run of this
/// user.
bool have_same_owner(const std::filesystem::path& run, const std::filesystem::path& successor) {
  struct stat of_run {
  }, of_successor{};
  return ::lstat(run.c_str(), &of_run) == 0 && ::lstat(successor.c_str(), &of_successor) == 0 &&
         of_run.st_uid == of_successor.st_uid && !S_ISLNK(of_successor.st_mode) &&
         foreign_uid(run) == foreign_uid(successor);
}

}  // namespace

std::vector<std::filesystem::path> runs_of_point(const std::filesystem::path& point) {
  std::vector<std::filesystem::path> runs{point};
  constexpr std::size_t kMostResubmissions = 100;  // also ends the loop at a cycle of runs
  while (runs.size() <= kMostResubmissions) {
    const auto text =
        read_untrusted(runs.back() / kSuccessorFile, kLargestSuccessorBytes, Links::kRefuse);
    if (!text) break;
    std::filesystem::path next(trim(*text));
    if (!next.is_absolute() || !is_run_directory(next) || !have_same_owner(runs.back(), next))
      break;
    runs.push_back(std::move(next));
  }
  return runs;
}

std::filesystem::path current_run_of(const std::filesystem::path& point) {
  return runs_of_point(point).back();
}

Result<std::vector<IndexEntry>> single_runs_of(const IndexEntry& run) {
  std::vector<IndexEntry> runs;
  if (!is_sweep(run.path)) {
    runs.push_back(run);
    return runs;
  }
  DLRUN_TRY_ASSIGN(const auto sweep, read_sweep(run.path));
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    runs.push_back({fmt::format("{}/{}", run.id, i), run.name,
                    current_run_of(point_path(run.path, sweep.points[i])), run.created});
  }
  return runs;
}

Result<> write_successor(const std::filesystem::path& point, const std::filesystem::path& run) {
  return write_file_atomic(point / kSuccessorFile, run.string() + "\n");
}

}  // namespace dlrun
