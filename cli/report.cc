#include "cli/report.h"

#include <filesystem>
#include <optional>
#include <vector>

#include "cli/terminal/autopsy_text.h"
#include "cli/terminal/json_or_null.h"
#include "cli/terminal/print.h"
#include "cli/terminal/words.h"
#include "common/text.h"
#include "launcher/runs/json_read.h"
#include "launcher/runs/last_words.h"
#include "launcher/runs/log_file.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

Json progress_json(const Progress& progress) {
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

Json failure_json(const RankFailure& failure) {
  Json json;
  json["rank"] = failure.rank >= 0 ? Json(failure.rank) : Json(nullptr);
  json["host"] = text_or_null(failure.host);
  json["code"] = failure.code;
  json["signal"] = text_or_null(failure.signal);
  json["error"] = text_or_null(failure.error);
  return json;
}

std::string nodes_of(const RunFacts& facts) {
  if (!facts.record.hosts.empty()) return facts.record.hosts;
  if (facts.report && !facts.report->nodes.empty()) return facts.report->nodes;
  return {};
}

/// Returns the attempt as "2, after failure, node_failure; at most 1 restart left"; "" if there was
/// only one attempt.
std::string attempt_text(const RunRecord& record) {
  if (record.attempt == 0 && record.restarts.empty()) return {};
  std::vector<std::string> causes;
  for (const auto& restart : record.restarts) causes.push_back(printable(restart.cause));
  if (causes.empty()) return std::to_string(record.attempt);
  const Restart& last = record.restarts.back();
  // Between two attempts, queued again or about to start, the record's attempt is the one that
  // has ended.
  const bool is_between = last.attempt == record.attempt && !record.ended;
  const std::string number =
      is_between ? fmt::format("{} is next", record.attempt + 1) : std::to_string(record.attempt);
  return fmt::format("{}, after {}; at most {} restart{} left", number, join(causes, ", "),
                     last.left, last.left == 1 ? "" : "s");
}

}  // namespace

std::string result_text(const std::string& result) {
  const auto json = json_read::object_of(result);
  if (!json) return {};
  std::vector<std::string> parts;
  for (const auto& [key, value] : json->items()) {
    std::string shown =
        value.is_string() ? printable(value.get<std::string>()) : json_read::dump(value);
    if (value.is_number_float()) shown = fmt::format("{:.6g}", value.get<double>());
    parts.push_back(fmt::format("{} {}", key, shown));
  }
  return join(parts, ", ");
}

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
  json["last_known"] = status.is_last_known;
  json["owner"] = facts.foreign ? Json(facts.foreign->name) : Json(nullptr);
  json["job"] = text_or_null(status.job.id);
  json["cluster"] = text_or_null(status.job.cluster);
  json["slurm_state"] = facts.report && status.job.cluster != kLocalCluster
                            ? Json(facts.report->state)
                            : Json(nullptr);
  json["nodes"] = text_or_null(nodes_of(facts));
  json["ranks"] = record.ranks > 0 ? Json(record.ranks) : Json(nullptr);
  json["attempt"] = record.has_events ? Json(record.attempt) : Json(nullptr);
  Json restarts = Json::array();
  for (const auto& restart : record.restarts)
    restarts.push_back(
        {{"attempt", restart.attempt}, {"cause", restart.cause}, {"left", restart.left}});
  json["restarts"] = restarts;
  json["progress"] = record.progress ? progress_json(*record.progress) : Json(nullptr);
  json["result"] = json_read::object_of(record.result).value_or(Json(nullptr));
  json["code"] = record.ended
                     ? Json(record.end_code)
                     : (facts.report ? value_or_null(facts.report->exit_code) : Json(nullptr));
  json["first_failed"] = record.first_failed ? failure_json(*record.first_failed) : Json(nullptr);
  json["autopsy"] = record.autopsy ? autopsy_json(*record.autopsy) : Json(nullptr);
  json["last_words"] = last_words(run.path, status);
  json["missing_ranks"] = record.missing;
  json["ended"] = text_or_null(record.end_time);
  if (status.sweep) {
    const SweepCounts& counts = *status.sweep;
    json["points"] = {{"all", counts.points},      {"completed", counts.completed},
                      {"failed", counts.failed},   {"cancelled", counts.cancelled},
                      {"running", counts.running}, {"pending", counts.pending},
                      {"unknown", counts.unknown}, {"not_submitted", counts.not_submitted}};
  }
  Json warnings = Json::array();
  for (const auto& warning : record.warnings) {
    warnings.push_back({{"message", warning.message},
                        {"rank", value_or_null(warning.rank)},
                        {"host", text_or_null(warning.host)}});
  }
  json["warnings"] = warnings;
  const auto log = status.sweep ? std::nullopt : job_log(run.path, facts);
  json["log"] = log ? Json(log->string()) : Json(nullptr);
  json["rank_logs"] = record.has_events
                          ? Json(rank_log(run.path, record.attempt, 0).parent_path().string())
                          : Json(nullptr);
  return json;
}

Text status_text(const IndexEntry& run, const RunStatus& status) {
  const RunFacts& facts = status.facts;
  const RunRecord& record = facts.record;
  Text all = text("{}\n", styled(Style::kBold, run.id));
  const auto line = [&](std::string_view label, std::string_view value,
                        Style style = Style::kNone) {
    if (!value.empty()) all.add("  {:<10}{}\n", label, styled(style, value));
  };
  const char* const known = !status.is_last_known    ? ""
                            : is_unreachable(status) ? "controller unreachable; last known: "
                                                     : "last known: ";
  all.add("  {:<10}{}{}", "state", known, styled(style_of(status.state), word(status.state)));
  if (!status.job.id.empty())
    all.add("  ({} {})", status.job.cluster == kLocalCluster ? "this machine," : "job",
            status.job.id);
  all.add("\n");
  if (facts.foreign && !status.is_last_known) line("", describe(*facts.foreign));
  line("", status.detail);
  if (status.sweep && status.sweep->not_submitted > 0 && !facts.foreign)
    line("", fmt::format("`dlrun resubmit {}` submits those that were not", run.id));
  if (record.has_events || !nodes_of(facts).empty()) {
    std::string place = nodes_of(facts);
    if (record.ranks > 0)
      place += fmt::format("{}{} rank{}", place.empty() ? "" : ", ", record.ranks,
                           record.ranks == 1 ? "" : "s");
    line("nodes", place);
  }
  line("attempt", attempt_text(record));
  if (record.progress && record.result.empty()) {
    const std::string since = age(record.progress->time);
    line("progress", progress_text(*record.progress) +
                         (record.ended || since.empty() ? "" : fmt::format("  ({} ago)", since)));
  }
  line("result", result_text(record.result));
  if (record.first_failed) line("failed", describe(*record.first_failed), Style::kRed);
  const auto words = last_words(run.path, status);
  for (std::size_t i = 0; i < words.size(); ++i) line(i == 0 ? "it said" : "", words[i]);
  if (record.autopsy) {
    const auto autopsy = autopsy_lines(*record.autopsy);
    for (std::size_t i = 0; i < autopsy.size(); ++i) line(i == 0 ? "autopsy" : "", autopsy[i]);
    line("stacks",
         (run.path / "autopsy" / fmt::format("attempt-{}", record.autopsy->attempt)).string());
  }
  if (!record.missing.empty()) {
    std::vector<std::string> ranks;
    for (const auto rank : record.missing) ranks.push_back(std::to_string(rank));
    line("missing", "rank " + join(ranks, ", "));
  }
  for (const auto& warning : record.warnings) {
    line("warning",
         warning.message + (warning.host.empty() ? "" : fmt::format(" ({})", warning.host)));
  }
  if (record.damaged_lines > 0)
    line("warning",
         fmt::format("{} damaged lines in events.jsonl were passed over", record.damaged_lines));
  if (record.left_out_bytes > 0)
    line("warning",
         fmt::format(
             "events.jsonl is too large to be read whole: {} MiB in its middle were passed over",
             record.left_out_bytes >> 20U));
  if (status.sweep) line("points", fmt::format("dlrun sweep {}", run.id));
  // A local run's log is created by its leader, which does not start if the setup fails.
  std::error_code none;
  if (const auto log = job_log(run.path, facts);
      log && (status.job.cluster != kLocalCluster || std::filesystem::exists(*log, none)))
    line("log", log->string());
  if (record.has_events)
    line("ranks'", rank_log(run.path, record.attempt, 0).parent_path().string());
  line("directory", run.path.string());
  return all;
}

std::string end_text(const IndexEntry& run, const RunStatus& status) {
  std::string text = fmt::format("{}: {}", printable(run.id), word(status.state));
  if (!status.detail.empty()) text += ": " + printable(status.detail);
  const auto& failed = status.facts.record.first_failed;
  // The status usually names the rank; otherwise it is added here.
  if (failed && status.state != RunState::kCompleted &&
      status.detail.find(fmt::format("rank {}", failed->rank)) == std::string::npos) {
    text += "; first to fail: " + printable(describe(*failed));
  }
  return text;
}

int exit_code_of_end(const RunStatus& status) {
  switch (status.state) {
    case RunState::kCompleted:
      return kExitOk;
    case RunState::kFailed:
    case RunState::kCancelled:
    case RunState::kTimeout:
      return kExitRunFailed;
    case RunState::kRefused:
      return kExitRefused;
    case RunState::kNotSubmitted:
    case RunState::kUnknown:
      return is_unreachable(status) ? kExitUnavailable : kExitNotFound;
    case RunState::kPending:
    case RunState::kRunning:
      return is_unreachable(status) ? kExitUnavailable : kExitOk;
  }
  return kExitFault;
}

int tell_end(const Cli& cli, const IndexEntry& run, const RunStatus& status) {
  const int code = exit_code_of_end(status);
  if (code == kExitOk) {
    print_note(cli, end_text(run, status));
  } else {
    print_error(cli, end_text(run, status));
  }
  return code;
}

}  // namespace dlrun
