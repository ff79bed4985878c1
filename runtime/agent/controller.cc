#include "runtime/agent/controller.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <tuple>

#include <fmt/format.h>

#include "common/hostlist.h"
#include "common/job_fields.h"
#include "common/log.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/slurm_words.h"

namespace dlrun::agent {
namespace {

/// Returns the value of a key, such as "n[1-2]" in "... NodeList=n[1-2] ...". Empty if the key is
/// missing or its value is "(null)".
std::string value_of(std::string_view text, std::string_view key) {
  for (const auto part : split(text, ' ')) {
    if (part.size() <= key.size() || !part.starts_with(key) || part[key.size()] != '=') continue;
    const auto value = trim(part.substr(key.size() + 1));
    return value == "(null)" ? std::string() : std::string(value);
  }
  return {};
}

/// Converts a local time such as "2026-11-21T16:15:12" to seconds since the epoch.
std::optional<std::int64_t> epoch_seconds_of(const std::string& text) {
  std::tm time{};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return std::nullopt;
  time.tm_isdst = -1;
  const auto since_epoch = std::mktime(&time);
  return since_epoch < 0 ? std::nullopt : std::optional<std::int64_t>(since_epoch);
}

/// Converts a memory size of scontrol, such as "500M" or "1.50G", to MiB; 0 if the text is no
/// memory size.
std::int64_t mib_of(const std::string& text) {
  constexpr double kMost = 1e12;
  const auto unit = text.find_first_not_of("0123456789.");
  const auto number = parse_double(std::string_view(text).substr(0, unit));
  if (!number || *number < 0 || *number > kMost) return 0;
  const char letter = unit == std::string::npos ? 'M' : text[unit];
  const double factor = letter == 'K'   ? 1.0 / 1024
                        : letter == 'G' ? 1024
                        : letter == 'T' ? 1024.0 * 1024
                                        : 1;
  return std::llround(*number * factor);
}

}  // namespace

JobFacts parse_job(std::string_view scontrol_output, std::int64_t now) {
  const std::string text = fields_of_jobs(scontrol_output);
  JobFacts facts;
  facts.state = value_of(text, "JobState");
  facts.reason = value_of(text, "Reason");
  facts.partition = value_of(text, "Partition");
  // A heterogeneous job has a line for each of its parts.
  for (const auto line : split(text, '\n')) {
    const auto nodes = value_of(line, "NodeList");
    if (!nodes.empty()) facts.nodes += (facts.nodes.empty() ? "" : ",") + nodes;
  }
  facts.excluded = value_of(text, "ExcNodeList");
  const auto restarts = parse_int(value_of(text, "Restarts")).value_or(0);
  facts.restarts = static_cast<int>(std::clamp<std::int64_t>(restarts, 0, 1 << 30));
  const auto per_cpu = value_of(text, "MinMemoryCPU");
  facts.has_memory_per_cpu = !per_cpu.empty();
  facts.memory_mib = mib_of(per_cpu.empty() ? value_of(text, "MinMemoryNode") : per_cpu);
  const auto preempted = value_of(text, "PreemptTime");
  facts.is_preempted = !preempted.empty() && preempted != "None";
  if (const auto end = epoch_seconds_of(value_of(text, "EndTime")))
    facts.seconds_to_limit = *end - now;
  return facts;
}

std::vector<std::string> parse_bad_nodes(std::string_view text) {
  constexpr std::array<std::string_view, 5> kBad{"down", "fail", "error", "unknown", "future"};
  std::vector<std::string> bad;
  for (const auto line : split(text, '\n')) {
    const auto space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const auto node = line.substr(0, space);
    const auto state = trim(line.substr(space + 1));
    bool is_bad = state.find('*') != std::string_view::npos;  // the node does not answer
    for (const auto word : kBad) is_bad = is_bad || state.starts_with(word);
    // sinfo lists a node once for each of its partitions.
    if (is_bad && (bad.empty() || bad.back() != node)) bad.emplace_back(node);
  }
  return bad;
}

bool requeues_preempted(std::string_view config_output, std::string_view partition_output) {
  const auto setting = [&](std::string_view name) {
    for (const auto line : split(config_output, '\n')) {
      const auto equals = line.find('=');
      if (equals != std::string_view::npos && trim(line.substr(0, equals)) == name)
        return std::string(trim(line.substr(equals + 1)));
    }
    return std::string();
  };
  const auto version_text = setting("SLURM_VERSION");
  const auto version = split(version_text, '.');
  const auto year = parse_int(version[0]);
  const auto month = version.size() > 1 ? parse_int(version[1]) : std::nullopt;
  if (!year || !month || *year < 24 || (*year == 24 && *month < 5)) return false;
  // With preempt/partition_prio a partition may have a mode of its own.
  auto mode = setting("PreemptType").ends_with("partition_prio")
                  ? value_of(partition_output, "PreemptMode")
                  : std::string();
  if (mode.empty()) mode = setting("PreemptMode");
  return mode.find("REQUEUE") != std::string::npos;
}

std::vector<std::string> lost_nodes(std::string_view nodes, const std::vector<std::string>& bad,
                                    const JobFacts& job) {
  auto lost = expand_hostlist(nodes).value_or(std::vector<std::string>());
  const auto kept = expand_hostlist(job.nodes).value_or(std::vector<std::string>());
  const auto has = [](const std::vector<std::string>& all, const std::string& node) {
    return std::find(all.begin(), all.end(), node) != all.end();
  };
  // The controller shows no nodes for a job that ends or waits for its next start. In this case
  // only bad nodes count as lost.
  std::erase_if(lost, [&](const std::string& node) {
    return !has(bad, node) && (kept.empty() || has(kept, node));
  });
  return lost;
}

SlurmController::SlurmController(Env env, std::string job)
    : env_(std::move(env)), job_(std::move(job)) {
  // The user's variables must not change the form of the answers.
  env_.set("SLURM_TIME_FORMAT", "standard");
  env_.remove_matching({"SINFO_*", "SQUEUE_*", "SCANCEL_*"}, {});
}

Result<std::string> SlurmController::run_slurm_command(std::vector<std::string> argv) const {
  const auto name = argv.front();
  Command command;
  command.argv = std::move(argv);
  command.env = env_;
  command.timeout = kLimit;
  auto finished = run_command(command);
  if (!finished) {
    Error error = std::move(finished.error());
    // Slurm's program is missing. kNotFound would mean that Slurm does not know the job.
    if (error.code == Errc::kNotFound) error.code = Errc::kUnavailable;
    return tl::unexpected<Error>(std::move(error));
  }
  if (finished->exit_code != 0) {
    return fail(reports_unknown_job(finished->err) ? Errc::kNotFound : Errc::kUnavailable,
                "{} ended with code {}: {}", name, finished->exit_code,
                printable(trim(finished->err)));
  }
  return std::move(finished->out);
}

Result<JobFacts> SlurmController::job() const {
  const auto text = run_slurm_command({"scontrol", "show", "job", job_});
  if (!text) return tl::unexpected<Error>(text.error());
  return parse_job(*text, std::time(nullptr));
}

Result<std::vector<std::string>> SlurmController::excluded_nodes() const {
  const auto facts = job();
  if (!facts) return tl::unexpected<Error>(facts.error());
  return expand_hostlist(facts->excluded);
}

Result<std::vector<std::string>> SlurmController::bad_nodes(const std::string& nodes) const {
  const auto text =
      run_slurm_command({"sinfo", "--noheader", "--Node", "--format=%N %T", "--nodes=" + nodes});
  if (!text) return tl::unexpected<Error>(text.error());
  return parse_bad_nodes(*text);
}

Result<std::vector<std::string>> SlurmController::lost_nodes(const std::string& nodes) const {
  const auto bad = bad_nodes(nodes);
  if (!bad) return tl::unexpected<Error>(bad.error());
  const auto facts = job();
  if (!facts) return tl::unexpected<Error>(facts.error());
  return agent::lost_nodes(nodes, *bad, *facts);
}

bool SlurmController::requeues_by_itself(bool was_preempted) const {
  const auto facts = job();
  if (!facts || !(facts->is_preempted || was_preempted)) return false;
  const auto config = run_slurm_command({"scontrol", "show", "config"});
  if (!config) return false;
  const auto partition =
      run_slurm_command({"scontrol", "show", "partition", "--oneliner", facts->partition});
  return requeues_preempted(*config, partition ? std::string_view(*partition) : std::string_view());
}

Result<> SlurmController::requeue(const std::vector<std::string>& excluded,
                                  const std::optional<JobMemory>& memory) const {
  Result<std::vector<std::string>> all_excluded;
  if (!excluded.empty()) all_excluded = excluded_nodes();
  if (const auto done = run_slurm_command({"scontrol", "requeue", job_}); !done)
    return tl::unexpected<Error>(done.error());
  // Slurm changes the memory and the excluded nodes only of a pending job. The requeue has just
  // made the job pending, so this must be done now, before Slurm ends this process.
  if (memory) {
    const auto done = run_slurm_command(
        {"scontrol", "update", "JobId=" + job_,
         fmt::format("{}={}", memory->is_per_cpu ? "MinMemoryCPU" : "MinMemoryNode", memory->mib)});
    if (!done) {
      const auto cancelled = run_slurm_command({"scancel", job_});
      return fail(cancelled ? Errc::kRefused : Errc::kUnavailable,
                  "the job could not get {} MiB, and {}: {}", memory->mib,
                  cancelled ? std::string("is cancelled")
                            : fmt::format("could not be cancelled ({}); run `scancel {}`",
                                          cancelled.error().message, job_),
                  done.error().message);
    }
  }
  if (excluded.empty()) return {};
  if (!all_excluded) all_excluded = excluded_nodes();
  if (!all_excluded) {
    // An update replaces the list, so it would let the job onto the nodes that the user excludes.
    log_info("the requeued job may get its bad nodes again: its excluded nodes are unknown",
             {{"message", all_excluded.error().message}});
    return {};
  }
  all_excluded->insert(all_excluded->begin(), excluded.begin(), excluded.end());
  const auto done = run_slurm_command(
      {"scontrol", "update", "JobId=" + job_, "ExcNodeList=" + compress_hostlist(*all_excluded)});
  if (!done) return tl::unexpected<Error>(done.error());
  return {};
}

Result<std::string> SlurmController::dependencies_of_pending_jobs() const {
  // Without --all squeue leaves out the jobs of hidden partitions.
  return run_slurm_command(
      {"squeue", "--me", "--all", "--noheader", "--states=PENDING", "--format=%E"});
}

Result<> SlurmController::cancel_pending(const std::vector<std::string>& jobs) const {
  if (jobs.empty()) return {};
  std::vector<std::string> argv = {"scancel", "--state=PENDING"};
  argv.insert(argv.end(), jobs.begin(), jobs.end());
  const auto done = run_slurm_command(std::move(argv));
  if (!done) return tl::unexpected<Error>(done.error());
  return {};
}

}  // namespace dlrun::agent
