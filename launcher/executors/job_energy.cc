#include "launcher/executors/job_energy.h"

#include <set>
#include <vector>

#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/scrub.h"

namespace dlrun {

std::map<std::string, double> parse_energy(std::string_view out) {
  // sacct prints an unsigned number of 64 bits. The two largest numbers of 64 bits (NO_VAL64 and
  // INFINITE64) are no measured energy.
  constexpr double kMostJoules = 1e15;
  std::map<std::string, double> joules;
  for (const auto line : split(out, '\n')) {
    const auto columns = split(line, '|');
    if (columns.size() < 2) continue;
    const std::string id(trim(columns[0]));
    const auto value = parse_double(trim(columns[1]));
    if (!is_slurm_job_id(id) || !value || !(*value > 0 && *value <= kMostJoules)) continue;
    joules[id] += *value;
  }
  return joules;
}

JobEnergies energy_of_jobs(const Env& env, std::span<const JobId> jobs,
                           std::chrono::milliseconds query_timeout) {
  std::map<std::string, std::set<std::string>> ids_by_cluster;  // whole arrays, not tasks
  for (const JobId& job : jobs) {
    if (job.cluster == kLocalCluster || !check_job_id(job)) continue;
    ids_by_cluster[job.cluster].insert(job.id.substr(0, job.id.find('_')));
  }
  JobEnergies joules;
  for (const auto& [cluster, ids] : ids_by_cluster) {
    Command command;
    command.argv = {"sacct",
                    "-P",
                    "-n",
                    "-X",
                    "-D",
                    "-o",
                    "JobID,ConsumedEnergyRaw",
                    "-j",
                    join(std::vector<std::string>(ids.begin(), ids.end()), ",")};
    if (!cluster.empty()) command.argv.insert(command.argv.begin() + 1, {"-M", cluster});
    command.env = scrubbed_for_slurm(env, munge_is_available());
    command.timeout = query_timeout;
    if (!find_program("sacct", command.env)) return joules;
    const auto done = run_command(command);
    // Many clusters have no accounting. The result then lacks the jobs of this cluster.
    if (!done || done->exit_code != 0) continue;
    for (const auto& [id, energy] : parse_energy(done->out)) joules[{cluster, id}] = energy;
  }
  return joules;
}

}  // namespace dlrun
