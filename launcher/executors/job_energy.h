#pragma once
// Asks Slurm's accounting for the energy that jobs consumed (ConsumedEnergy of sacct).

#include <chrono>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/env.h"
#include "common/job_id.h"

namespace dlrun {

/// Parses the output of sacct -P -n -X -D -o JobID,ConsumedEnergyRaw. Returns joules by job id. A
/// job that Slurm has requeued has one line for each attempt; the result has the sum of these
/// lines. Leaves out jobs without a measured energy, for which sacct prints 0 or nothing.
[[nodiscard]] std::map<std::string, double> parse_energy(std::string_view out);

/// Joules by cluster and job id: two clusters can have jobs of the same id.
using JobEnergies = std::map<std::pair<std::string, std::string>, double>;

/// Returns the energy of each job. A cluster measures energy only with an acct_gather_energy
/// plugin, and has the energy of a job only after the job's end. Leaves out jobs that ran without
/// Slurm (kLocalCluster), and jobs whose energy is unknown. If `jobs` has a task of an array, the
/// result also has the array's other tasks. Starts one sacct per cluster, each with this timeout.
[[nodiscard]] JobEnergies energy_of_jobs(const Env& env, std::span<const JobId> jobs,
                                         std::chrono::milliseconds query_timeout);

}  // namespace dlrun
