#include "launcher/executors/slurm_parse.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <map>
#include <optional>

#include "common/hostlist.h"
#include "common/job_fields.h"
#include "common/text.h"

namespace dlrun {
namespace {

bool has_form_of_job_id(std::string_view text) {
  return !text.empty() && text.front() >= '0' && text.front() <= '9' &&
         text.find_first_not_of("0123456789_+[]-,%") == std::string_view::npos;
}

/// Splits the line at '|' into `count` fields; the last field holds the rest of the line. Returns
/// nullopt if the line has fewer fields.
std::optional<std::vector<std::string_view>> fields(std::string_view line, std::size_t count) {
  std::vector<std::string_view> result;
  while (result.size() + 1 < count) {
    const auto bar = line.find('|');
    if (bar == std::string_view::npos) return std::nullopt;
    result.push_back(trim(line.substr(0, bar)));
    line.remove_prefix(bar + 1);
  }
  result.push_back(trim(line));
  return result;
}

/// Returns `text`; an empty string if it is one of Slurm's placeholders for a missing value.
std::string without_placeholder(std::string_view text) {
  constexpr std::array<std::string_view, 7> kPlaceholders = {
      "(null)", "None", "N/A", "Unknown", "NONE", "None assigned", "none"};
  return std::find(kPlaceholders.begin(), kPlaceholders.end(), text) == kPlaceholders.end()
             ? std::string(text)
             : std::string();
}

}  // namespace

std::vector<std::string> failed_dependencies(std::string_view dependency) {
  constexpr std::string_view kFailedSuffix = "(failed)";
  std::vector<std::string> failed;
  std::string_view rest = dependency;
  while (!rest.empty()) {
    const auto end = rest.find_first_of(",?");
    const auto word = rest.substr(0, end);
    if (word.ends_with(kFailedSuffix))
      failed.emplace_back(word.substr(0, word.size() - kFailedSuffix.size()));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return failed;
}

std::string utc_of_slurm_time(std::string_view local) {
  std::tm parts{};
  parts.tm_isdst = -1;  // mktime() finds out whether summer time applies
  const std::string text(local);
  const char* const rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr || *rest != '\0') return {};
  const std::tm given = parts;
  const std::time_t when = std::mktime(&parts);
  // mktime() replaces February 30 by a day of March, and replaces a time that the clock skips when
  // summer time begins.
  const bool is_valid = parts.tm_mon == given.tm_mon && parts.tm_mday == given.tm_mday &&
                        parts.tm_hour == given.tm_hour && parts.tm_min == given.tm_min;
  return when < 0 || !is_valid ? std::string()
                               : utc_timestamp(std::chrono::system_clock::from_time_t(when));
}

std::optional<std::int64_t> parse_job_cpus_on_node(std::string_view out, std::string_view node) {
  constexpr std::string_view kNodes = "Nodes=", kCpus = "CPU_IDs=";
  bool is_about_node = false;
  const std::string details = fields_of_jobs(out);
  for (const auto line : split(details, '\n')) {
    for (const auto word : split(line, ' ')) {
      if (word.starts_with(kNodes)) {
        const auto hosts = expand_hostlist(word.substr(kNodes.size()));
        is_about_node = hosts && std::find(hosts->begin(), hosts->end(), node) != hosts->end();
      } else if (word.starts_with(kCpus) && is_about_node) {
        std::int64_t count = 0;
        for (const auto range : split(word.substr(kCpus.size()), ',')) {
          const auto dash = range.find('-');
          const auto first = parse_int(range.substr(0, dash));
          const auto last =
              dash == std::string_view::npos ? first : parse_int(range.substr(dash + 1));
          if (!first || !last || *first < 0 || *last < *first) return std::nullopt;
          count += *last - *first + 1;
        }
        return count;
      }
    }
  }
  return std::nullopt;
}

std::vector<std::string> parse_long_options(std::string_view help) {
  std::vector<std::string> names;
  for (const auto line : split(help, '\n')) {
    auto at = trim(line);
    if (at.size() > 3 && at[0] == '-' && at[1] != '-' && at.substr(2, 2) == ", ")
      at.remove_prefix(4);  // "-A, "
    if (!at.starts_with("--")) continue;
    at.remove_prefix(2);
    constexpr std::string_view kOptionalNo = "[no-]";
    const bool has_opposite = at.starts_with(kOptionalNo);
    if (has_opposite) at.remove_prefix(kOptionalNo.size());
    const std::string name(
        at.substr(0, at.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_")));
    if (name.empty()) continue;
    names.push_back(name);
    if (has_opposite) names.push_back("no-" + name);
  }
  return names;
}

bool starts_with_dlrun_comment(std::string_view comment, std::string_view dlrun_comment) {
  return comment.starts_with(dlrun_comment) &&
         (comment.size() == dlrun_comment.size() || comment[dlrun_comment.size()] == ' ');
}

std::string state_word(std::string_view text) {
  return std::string(text.substr(0, text.find_first_of(" +")));
}

JobPhase phase_of(std::string_view word) {
  constexpr std::array<std::string_view, 7> kWaiting = {
      "PENDING",      "CONFIGURING",  "REQUEUED",  "REQUEUE_FED",
      "REQUEUE_HOLD", "SPECIAL_EXIT", "EXPEDITING"};
  constexpr std::array<std::string_view, 13> kEnded = {
      "COMPLETED",     "CANCELLED", "FAILED",        "TIMEOUT",       "NODE_FAIL",
      "PREEMPTED",     "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "DEADLINE",
      "OUT_OF_MEMORY", "REVOKED",   "GETENV_FAILED"};
  if (std::find(kWaiting.begin(), kWaiting.end(), word) != kWaiting.end())
    return JobPhase::kPending;
  if (std::find(kEnded.begin(), kEnded.end(), word) != kEnded.end()) return JobPhase::kEnded;
  // An unknown state of a later Slurm version counts as running. If the job has ended, a later
  // query corrects this. The opposite error, to take a running job for an ended one, would lose the
  // job.
  return JobPhase::kRunning;
}

Result<JobId> parse_sbatch(std::string_view out) {
  std::optional<JobId> job;
  for (const auto line : split(out, '\n')) {
    const auto parts = split(trim(line), ';');
    if (parts.size() <= 2 && parse_int(parts[0]).value_or(0) > 0) {
      job = JobId{parts.size() == 2 ? std::string(parts[1]) : std::string(), std::string(parts[0])};
    }
  }
  if (!job) {
    return fail(Errc::kInternal, "sbatch succeeded, but printed no job id: '{}'",
                printable(out.substr(0, 200)));
  }
  return *job;
}

std::vector<JobReport> parse_squeue(std::string_view out, const std::string& cluster) {
  std::vector<JobReport> reports;
  std::string current = cluster;
  for (const auto line : split(out, '\n')) {
    if (line.starts_with("CLUSTER: ")) {
      current = trim(line.substr(9));
      continue;
    }
    const auto columns = fields(line, 7);
    if (!columns || !has_form_of_job_id((*columns)[0])) continue;
    const auto& c = *columns;
    JobReport report;
    report.job = {current, std::string(c[0])};
    report.state = state_word(c[1]);
    report.phase = phase_of(report.state);
    report.reason = without_placeholder(c[2]);
    report.nodes = without_placeholder(c[3]);
    report.start = without_placeholder(c[4]);
    if (report.reason == kNeverSatisfied) report.failed_dependencies = failed_dependencies(c[5]);
    report.comment = without_placeholder(c[6]);
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<JobReport> parse_sacct(std::string_view out, const std::string& cluster) {
  std::vector<JobReport> reports;
  std::map<std::string, std::size_t> index_of_id;  // a job's id -> its index in reports
  for (const auto line : split(out, '\n')) {
    const auto columns = fields(line, 7);
    if (!columns || !has_form_of_job_id((*columns)[0])) continue;
    const auto& c = *columns;
    JobReport report;
    report.job = {cluster, std::string(c[0])};
    report.state = state_word(c[1]);
    report.phase = phase_of(report.state);
    const auto code = split(c[2], ':');
    if (report.phase == JobPhase::kEnded && code.size() == 2) {
      if (const auto value = parse_int(code[0])) report.exit_code = static_cast<int>(*value);
      report.signal = static_cast<int>(parse_int(code[1]).value_or(0));
    }
    report.nodes = without_placeholder(c[3]);
    report.start = without_placeholder(c[4]);
    report.reason = without_placeholder(c[5]);
    report.comment = without_placeholder(c[6]);
    const auto [entry, is_new] = index_of_id.try_emplace(report.job.id, reports.size());
    if (is_new) {
      reports.push_back(std::move(report));
    } else {
      reports[entry->second] = std::move(report);
    }
  }
  return reports;
}

}  // namespace dlrun
