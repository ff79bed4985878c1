// The JSON of submissions, for `submit --json`, `resubmit --json`, `check --json` and
// `run --dry-run --json`.

#include <nlohmann/json.hpp>

#include "common/json_or_null.h"
#include "launcher/executors/slurm_parse.h"
#include "launcher/runs/log_file.h"
#include "launcher/submit/allocation_run.h"
#include "launcher/submit/check_report.h"
#include "launcher/submit/local_run.h"
#include "launcher/submit/submit_spec.h"
#include "launcher/view/component_lines.h"
#include "launcher/view/start_and_limits.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

void set_run(Json& json, const RunDirectory& run) {
  json["run"] = run.id;
  json["name"] = run.name;
  json["path"] = run.path.string();
}

/// Sets the hours of a job, or the sum of a sweep's points; null for a search, whose number of
/// points is unknown. sweep: nullptr for a job.
void set_hours(Json& json, const Job& job, const SweepPlan* sweep) {
  const auto hours = [&](std::optional<double> (*of)(const Requested&)) {
    if (job.is_search()) return Json(nullptr);
    return value_or_null(sweep != nullptr ? sum_of_hours(*sweep, of) : of(job.requests.requested));
  };
  json["gpu_hours"] = hours(gpu_hours);
  json["core_hours"] = hours(core_hours);
}

/// Sets the numbers of points and arrays; null for a job, and for a search, whose program chooses
/// the points later. sweep: nullptr for a job.
void set_points(Json& json, const Job& job, const SweepPlan* sweep) {
  const bool is_known = sweep != nullptr && !job.is_search();
  json["points"] = is_known ? Json(sweep->points.size()) : Json(nullptr);
  json["arrays"] = is_known ? Json(sweep->arrays.size()) : Json(nullptr);
}

Json job_ids_json(const std::vector<Submission>& submissions) {
  Json ids = Json::array();
  for (const Submission& one : submissions) ids.push_back(one.job.id);
  return ids;
}

/// Returns the expected start in UTC; null if Slurm has no estimate. report: nullopt if Slurm did
/// not answer.
Json start_json(const std::optional<JobReport>& report) {
  return text_or_null(report ? utc_of_slurm_time(report->start) : "");
}

Json job_json(const Env& env, const Submitted& submitted) {
  const Submission& submission = submitted.submissions.front();
  const auto report = report_of_new_job(env, submission);
  Json out;
  set_run(out, submitted.run);
  out["job"] = submission.job.id;
  out["follow_ups"] =
      submission.chain_job_count > 0 ? job_ids_json(submitted.follow_ups) : Json(nullptr);
  out["cluster"] = text_or_null(submission.job.cluster);
  RunFacts facts;
  facts.submission = submission;
  out["log"] = text_or_null(job_log(submitted.run.path, facts).value_or("").string());
  out["start"] = start_json(report);
  set_hours(out, submitted.job, nullptr);
  return out;
}

Json submitted_sweep_json(const Env& env, const Submitted& submitted) {
  const auto& points = *submitted.points;
  const Submission& first = submitted.submissions.front();
  Json out;
  set_run(out, submitted.run);
  out["jobs"] = job_ids_of(submitted);
  out["cluster"] = text_or_null(first.job.cluster);
  const auto report = report_of_new_job(env, first);
  out["start"] = start_json(report);
  out["points"] = points.to_submit_count;
  out["max_parallel"] = value_or_null(points.max_parallel);
  out["gpu_hours"] = nullptr;
  out["core_hours"] = nullptr;
  if (points.plan) set_hours(out, submitted.job, &*points.plan);
  return out;
}

Json account_json(const AccountUse& use) {
  Json limits = Json::array();
  for (const AccountLimit& limit : use.limits) {
    limits.push_back({{"resource", limit.resource},
                      {"user", text_or_null(limit.user)},
                      {"limit_hours", limit.limit_minutes / 60},
                      {"used_hours", limit.used_minutes / 60},
                      {"reserved_hours", limit.reserved_minutes / 60},
                      {"left_hours", limit.left_minutes() / 60}});
  }
  return {{"name", use.account}, {"limits", std::move(limits)}};
}

}  // namespace

Json submission_json(const Env& env, const Submitted& submitted) {
  return submitted.points ? submitted_sweep_json(env, submitted) : job_json(env, submitted);
}

Json submission_json(const Searched& searched) {
  Json out;
  set_run(out, searched.run);
  out["points"] = searched.point_count;
  return out;
}

Json submission_json(const DryRun& dry_run) {
  const Job& job = dry_run.job;
  const SweepPlan* const sweep = dry_run.sweep ? &*dry_run.sweep : nullptr;
  Json out;
  out["run"] = nullptr;
  out["runs_dir"] = job.runs_dir;
  out["sbatch"] = dry_run.sbatch_options;
  out["slurmrestd"] = job.settings.server ? Json(job.settings.server->url) : Json(nullptr);
  set_hours(out, job, sweep);
  set_points(out, job, sweep);
  out["script"] = job.script;
  return out;
}

Json submission_json(const TestOnlyAnswer& result) {
  Json out;
  out["run"] = nullptr;
  out["name"] = result.job.name;
  out["slurm"] = result.answer;
  set_hours(out, result.job, result.sweep ? &*result.sweep : nullptr);
  return out;
}

Json submission_json(const AllocationScript& script) {
  return {{"run", nullptr}, {"allocation", text_or_null(script.job)}, {"script", script.script}};
}

Json submission_json(const LocalScript& script) {
  return {{"run", nullptr}, {"allocation", nullptr}, {"script", script.script}};
}

Json submission_json(const StartedRun& started) {
  Json out;
  set_run(out, started.run);
  out["allocation"] = started.job;
  return out;
}

Json check_json(const CheckReport& report) {
  const LoadedSpec& loaded = report.job.experiment->loaded;
  const SweepPlan* const sweep = report.sweep ? &*report.sweep : nullptr;
  Json json;
  json["name"] = report.job.name;
  json["site"] = loaded.site.name;
  json["warning_count"] = loaded.warnings.size() + report.checked.warning_count;
  json["downloads"] = report.checked.to_fetch;
  json["slurm"] =
      report.has_slurm && report.why_unreachable.empty() ? Json(report.verdict) : Json(nullptr);
  set_points(json, report.job, sweep);
  const auto lines = component_lines(loaded);
  json["component_lines"] = lines.empty() ? Json(nullptr) : Json(lines);
  set_hours(json, report.job, sweep);
  json["account"] = report.account ? account_json(*report.account) : Json(nullptr);
  return json;
}

}  // namespace dlrun
