#include "launcher/view/status_json.h"

#include "common/json_or_null.h"
#include "common/json_read.h"
#include "launcher/runs/last_words.h"
#include "launcher/runs/log_file.h"
#include "launcher/view/rehearsal_text.h"
#include "launcher/view/run_text.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

Json failure_json(const RankFailure& failure) {
  Json json;
  json["rank"] = failure.rank >= 0 ? Json(failure.rank) : Json(nullptr);
  json["host"] = text_or_null(failure.host);
  json["code"] = failure.code;
  json["signal"] = text_or_null(failure.signal);
  json["error"] = text_or_null(failure.error);
  json["component"] = text_or_null(failure.component);
  return json;
}

Json components_json(const RunRecord& record) {
  if (record.components.empty()) return nullptr;
  Json components = Json::array();
  for (const auto& one : record.components) {
    components.push_back({{"name", one.name},
                          {"role", one.role.text()},
                          {"state", word(one.state)},
                          {"ranks", one.ranks},
                          {"nodes", text_or_null(one.hosts)},
                          {"addr", text_or_null(one.addr)},
                          {"restarts", one.restarts},
                          {"code", one.code ? Json(*one.code) : Json(nullptr)}});
  }
  return components;
}

Json restarts_json(const RunRecord& record) {
  Json restarts = Json::array();
  for (const auto& restart : record.restarts)
    restarts.push_back(
        {{"attempt", restart.attempt}, {"cause", restart.cause}, {"left", restart.restarts_left}});
  return restarts;
}

Json counts_json(const SweepCounts& counts) {
  return {{"all", counts.points},      {"completed", counts.completed},
          {"failed", counts.failed},   {"timeout", counts.timeout},
          {"refused", counts.refused}, {"cancelled", counts.cancelled},
          {"running", counts.running}, {"pending", counts.pending},
          {"unknown", counts.unknown}, {"not_submitted", counts.not_submitted}};
}

Json warnings_json(const RunRecord& record) {
  Json warnings = Json::array();
  for (const auto& warning : record.warnings) {
    warnings.push_back({{"message", warning.message},
                        {"rank", value_or_null(warning.rank)},
                        {"host", text_or_null(warning.host)}});
  }
  return warnings;
}

Json predictions_json(const std::optional<Predictions>& texts) {
  if (!texts) return nullptr;
  return {{"rehearsal", texts->rehearsal},
          {"memory", text_or_null(texts->memory)},
          {"gpu", text_or_null(texts->gpu)},
          {"time", text_or_null(texts->time)}};
}

Json chain_json(const RunFacts& facts) {
  const auto jobs = chain_jobs_of(facts);
  if (jobs.empty()) return nullptr;
  Json ids = Json::array();
  for (const JobId& job : jobs) ids.push_back(job.id);
  return ids;
}

/// Returns the exit code of the run from its record, otherwise from Slurm's answer; null if neither
/// has it. If a signal ended the script, Slurm reports code 0 and the number of the signal; the
/// result is then 128 plus this number. Instead of a signal, Slurm may report a number of its own
/// (125: lack of memory, 53: the job's output file could not be opened). For a job that Slurm ended
/// itself, Slurm may report code 0; the result is then null.
Json code_json(const RunStatus& status) {
  constexpr int kLastSignal = 31;  // higher numbers may be Slurm's own, such as 53
  if (status.facts.record.ended) return status.facts.record.end_code;
  const auto& report = status.facts.report;
  if (!report || report->phase != JobPhase::kEnded) return nullptr;
  if (report->signal > 0 && report->signal <= kLastSignal) return 128 + report->signal;
  if (report->exit_code == 0 && status.state != RunState::kCompleted) return nullptr;
  return value_or_null(report->exit_code);
}

}  // namespace

Json status_json(const IndexEntry& run, const RunStatus& status) {
  const RunFacts& facts = status.facts;
  const RunRecord& record = facts.record;
  Json json;
  json["run"] = run.id;
  json["name"] = run.name;
  json["path"] = run.path.string();
  json["created"] = text_or_null(run.created);
  json["state"] = word(status.state);
  json["detail"] = text_or_null(status.detail);
  json["last_known"] = status.may_be_outdated;
  json["owner"] = facts.foreign ? Json(facts.foreign->name) : Json(nullptr);
  json["job"] = status.sweep ? Json(nullptr) : text_or_null(status.job.id);
  json["jobs"] = status.sweep ? Json(status.jobs) : Json(nullptr);
  json["allocation"] = text_or_null(enclosing_job_of(facts));
  json["cluster"] = text_or_null(status.job.cluster);
  json["chain"] = chain_json(facts);
  json["slurm_state"] = facts.report && status.job.cluster != kLocalCluster
                            ? Json(facts.report->state)
                            : Json(nullptr);
  json["slurm_reason"] = facts.report && status.job.cluster != kLocalCluster
                             ? text_or_null(facts.report->reason)
                             : Json(nullptr);
  json["nodes"] = text_or_null(nodes_of(facts));
  json["ranks"] = record.ranks > 0 ? Json(record.ranks) : Json(nullptr);
  json["attempt"] = record.has_events ? Json(record.attempt) : Json(nullptr);
  json["restarts"] = restarts_json(record);
  json["progress"] = progress_json(record);
  json["result"] = json_read::object_of(record.result).value_or(Json(nullptr));
  json["code"] = code_json(status);
  json["first_failed"] = record.first_failed ? failure_json(*record.first_failed) : Json(nullptr);
  json["components"] = components_json(record);
  json["rehearsal"] = predictions_json(predictions_for(run.path));
  json["autopsy"] = record.autopsy ? autopsy_json(*record.autopsy) : Json(nullptr);
  json["last_words"] = last_words(run.path, status);
  json["missing_ranks"] = record.missing_ranks;
  json["ended"] = text_or_null(record.end_time);
  json["point_counts"] = status.sweep ? counts_json(*status.sweep) : Json(nullptr);
  json["warnings"] = warnings_json(record);
  const auto log = status.sweep ? std::nullopt : job_log(run.path, facts);
  json["log"] = log ? Json(log->string()) : Json(nullptr);
  json["rank_logs"] = record.has_events
                          ? Json(rank_log(run.path, record.attempt, 0).parent_path().string())
                          : Json(nullptr);
  return json;
}

Json progress_json(const RunRecord& record) {
  if (!record.progress) return nullptr;
  const Progress& progress = *record.progress;
  Json json;
  json["time"] = progress.time;
  json["epoch"] = value_or_null(progress.epoch);
  json["epochs"] = value_or_null(progress.epochs);
  json["step"] = value_or_null(progress.step);
  json["steps"] = value_or_null(progress.steps);
  json["loss"] = value_or_null(progress.loss);
  json["accuracy"] = value_or_null(progress.accuracy);
  json["samples_per_s"] = value_or_null(progress.samples_per_s);
  return json;
}

Json autopsy_json(const Autopsy& autopsy) {
  auto groups = Json::array();
  for (const auto& group : autopsy.groups) {
    groups.push_back({{"ranks", group.ranks},
                      {"hosts", group.hosts},
                      {"count", group.count},
                      {"frames", group.frames}});
  }
  return {{"attempt", autopsy.attempt},
          {"ranks", autopsy.rank_count},
          {"odd", autopsy.outlier_count},
          {"groups", groups}};
}

}  // namespace dlrun
