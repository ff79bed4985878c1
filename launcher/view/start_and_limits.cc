#include "launcher/view/start_and_limits.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/executors/squeue_query.h"
#include "launcher/runs/pending_reason.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

[[nodiscard]] std::string count_text(std::int64_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace

std::string partition_text(const SiteProfile& site, std::string partition) {
  if (partition.empty()) partition = site.default_partition;
  const auto found = site.partitions.find(partition);
  if (found == site.partitions.end()) return "";
  const PartitionProfile& p = found->second;
  std::vector<std::string> of_job, of_node;
  if (p.max_time_seconds) of_job.push_back(format_time_limit(*p.max_time_seconds));
  if (p.max_nodes) of_job.push_back(count_text(*p.max_nodes, "node"));
  if (p.gpus_per_node) {
    of_node.push_back(count_text(*p.gpus_per_node, "GPU"));
    if (!p.gpu_types.empty()) of_node.back() += fmt::format(" ({})", join(p.gpu_types, ", "));
  }
  if (p.cpus_per_node) of_node.push_back(count_text(*p.cpus_per_node, "CPU"));
  if (p.mem_per_node_mib) of_node.push_back(fmt::format("{} MiB", *p.mem_per_node_mib));
  std::string text;
  if (!of_job.empty()) text = fmt::format("at most {} for a job", join(of_job, " and "));
  if (!of_node.empty())
    text += fmt::format("{}a node has {}", text.empty() ? "" : "; ", join(of_node, ", "));
  return text.empty() ? "" : fmt::format("{}: {}", partition, text);
}

std::string start_text(const JobReport& report, std::string_view dependency) {
  if (report.phase != JobPhase::kPending)
    return report.nodes.empty() ? "now" : fmt::format("now, on {}", printable(report.nodes));
  if (!report.start.empty())
    return fmt::format("about {}, as Slurm estimates it now", printable(report.start));
  // Directly after the submission, Slurm may not have a reason yet.
  if (report.reason == "Dependency" || (report.reason.empty() && !dependency.empty()))
    return "after the jobs that it waits for";
  return fmt::format(
      "when Slurm finds room for the job; it has no estimate yet{}",
      report.reason.empty() ? "" : fmt::format("; pending: {}", printable(reason_text(report))));
}

std::string cannot_start_text(const JobReport& report) {
  // Values of job_state_reason in slurm.h that last until the request or the cluster's settings
  // change.
  constexpr std::array<std::string_view, 10> kLastingReasons{
      "PartitionConfig",   "PartitionNodeLimit",   "PartitionTimeLimit", "BadConstraints",
      "AccountNotAllowed", "QOSNotAllowed",        "InvalidAccount",     "InvalidQOS",
      "QOSTimeLimit",      "AssociationTimeLimit",
  };
  if (report.phase != JobPhase::kPending ||
      std::find(kLastingReasons.begin(), kLastingReasons.end(), report.reason) ==
          kLastingReasons.end())
    return "";
  return fmt::format(
      "Slurm has accepted the job, but with its present request it cannot start ({}): {}",
      report.reason, meaning_of_reason(report.reason));
}

std::optional<JobReport> report_of_new_job(const Env& env, const Submission& submission) {
  constexpr std::chrono::seconds kTimeout{2};
  return submission.server ? std::nullopt : squeue_report_on(env, submission.job, kTimeout);
}

}  // namespace dlrun
