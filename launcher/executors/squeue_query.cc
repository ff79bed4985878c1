#include "launcher/executors/squeue_query.h"

#include <utility>
#include <vector>

#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/scrub.h"
#include "launcher/executors/slurm_parse.h"

namespace dlrun {
namespace {

/// Runs squeue with these arguments. Returns its output; nullopt if it fails or takes too long.
std::optional<std::string> ask_squeue(const Env& env, const std::string& cluster,
                                      std::vector<std::string> arguments,
                                      std::chrono::milliseconds query_timeout) {
  Command command;
  command.argv = {"squeue", "-h"};
  if (!cluster.empty()) command.argv.insert(command.argv.end(), {"-M", cluster});
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.env = scrubbed_for_slurm(env, munge_is_available());
  command.timeout = query_timeout;
  auto done = run_command(command);
  if (!done || done->exit_code != 0) return std::nullopt;
  return std::move(done->out);
}

/// The key by which pending jobs are sorted: the negative priority, then the job's id. The job with
/// the smallest key is the next.
using QueueKey = std::pair<std::int64_t, std::int64_t>;

/// Reads "PRIORITY|JOB"; nullopt if the text is not of this form.
std::optional<QueueKey> parse_queue_key(std::string_view text) {
  const auto bar = text.find('|');
  if (bar == std::string_view::npos) return std::nullopt;
  const auto priority = parse_int(trim(text.substr(0, bar)));
  const auto job = parse_int(trim(text.substr(bar + 1)));
  if (!priority || !job) return std::nullopt;
  return QueueKey{-*priority, *job};
}

}  // namespace

std::optional<JobReport> squeue_report_on(const Env& env, const JobId& job,
                                          std::chrono::milliseconds query_timeout) {
  if (!check_job_id(job)) return std::nullopt;
  const auto out =
      ask_squeue(env, job.cluster, {"-j", job.id, "-o", std::string(kSqueueFormat)}, query_timeout);
  if (!out) return std::nullopt;
  auto reports = parse_squeue(*out, job.cluster);
  if (reports.empty()) return std::nullopt;
  return std::move(reports.front());
}

std::optional<QueuePlace> parse_queue_place(std::string_view job_lines,
                                            std::string_view pending_lines) {
  QueuePlace place;
  std::optional<QueueKey> job_key;
  for (const auto line : split(job_lines, '\n')) {
    const auto bar = line.find('|');
    if (bar == std::string_view::npos) continue;
    job_key = parse_queue_key(line.substr(bar + 1));
    place.partitions = std::string(trim(line.substr(0, bar)));
    if (job_key) break;
  }
  if (!job_key || place.partitions.empty()) return std::nullopt;
  for (const auto line : split(pending_lines, '\n')) {
    const auto other = parse_queue_key(line);
    if (!other) continue;
    ++place.pending;
    if (*other < *job_key) ++place.ahead;
  }
  return place;
}

std::optional<QueuePlace> queue_place_of(const Env& env, const JobId& job,
                                         std::chrono::milliseconds query_timeout) {
  if (!check_job_id(job)) return std::nullopt;
  const auto job_lines =
      ask_squeue(env, job.cluster, {"-j", job.id, "-o", "%P|%Q|%A"}, query_timeout);
  const auto place = job_lines ? parse_queue_place(*job_lines, "") : std::nullopt;
  if (!place) return std::nullopt;
  const auto pending_lines = ask_squeue(
      env, job.cluster, {"-t", "PENDING", "-p", place->partitions, "-o", "%Q|%A"}, query_timeout);
  return pending_lines ? parse_queue_place(*job_lines, *pending_lines) : std::nullopt;
}

}  // namespace dlrun
