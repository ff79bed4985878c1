#include "launcher/executors/executor.h"

#include "common/text.h"

namespace dlrun {

std::string reason_text(const JobReport& report) {
  if (report.failed_dependencies.empty()) return report.reason;
  return fmt::format("{}: {}", report.reason, join(report.failed_dependencies, ", "));
}

Result<std::optional<JobId>> Executor::find(std::string_view comment, const std::string& cluster) {
  if (cluster != kLocalCluster && !is_cluster_list(cluster))
    return fail(Errc::kInvalid, "'{}' is not the name of a cluster", printable(cluster));
  return do_find(comment, cluster);
}

Result<QueryAnswer> Executor::query(std::span<const JobId> jobs,
                                    std::chrono::milliseconds max_age) {
  for (const JobId& job : jobs) DLRUN_TRY(check_job_id(job));
  return do_query(jobs, max_age);
}

Result<> Executor::cancel(const JobId& job, std::string_view token) {
  DLRUN_TRY(check_job_id(job));
  return do_cancel(job, token);
}

}  // namespace dlrun
