#include "launcher/executors/glance.h"

#include "common/subprocess.h"
#include "launcher/executors/scrub.h"
#include "launcher/executors/slurm_parse.h"

namespace dlrun {

std::optional<JobReport> glance_at(const Env& env, const JobId& job,
                                   std::chrono::milliseconds at_most) {
  if (!check_job(job)) return std::nullopt;
  Command command;
  command.argv = {"squeue", "-h", "-j", job.id, "-o", std::string(kSqueueFormat)};
  if (!job.cluster.empty()) command.argv.insert(command.argv.begin() + 1, {"-M", job.cluster});
  command.env = scrubbed_for_slurm(env, munge_is_available());
  command.timeout = at_most;
  const auto done = run_command(command);
  if (!done || done->exit_code != 0) return std::nullopt;
  auto reports = parse_squeue(done->out, job.cluster);
  if (reports.empty()) return std::nullopt;
  return std::move(reports.front());
}

}  // namespace dlrun
