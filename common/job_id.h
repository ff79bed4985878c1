#pragma once
// The forms of job ids and cluster names, defined in one place. Job ids and names come from files
// that other users may have written. dlrun uses them in command lines, in URLs and as targets of
// signals.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// The cluster name of jobs that dlrun runs on this machine without Slurm.
inline constexpr std::string_view kLocalCluster = "local";

/// A job of a cluster, or of this machine.
struct JobId {
  std::string cluster;  ///< empty: the default cluster; kLocalCluster: this machine
  std::string id;       ///< Slurm's id ("42", "42_7"); HOST:PID:START for a local job
  friend bool operator==(const JobId&, const JobId&) = default;
};

/// A job that runs on one machine without Slurm. The kernel reuses pids, so a pid identifies a
/// process only together with the start time.
struct LocalJob {
  std::string host;
  pid_t pid = -1;
  std::uint64_t start_ticks = 0;  ///< clock ticks since boot; see process_start_ticks()
};

/// Returns true for "42" and "42_7" with at most ten digits each: ^[0-9]+(_[0-9]+)?$.
[[nodiscard]] bool is_slurm_job_id(std::string_view text);

/// Splits HOST:PID:START. Returns nullopt for any other text, and for a pid that is 0 or too large.
[[nodiscard]] std::optional<LocalJob> parse_local_job(std::string_view text);

/// Returns true for a value of Slurm's option -M, a list of clusters: names of letters, digits,
/// '_', '.' and '-', separated by commas. No name may start with '-'. The empty text is the default
/// cluster.
[[nodiscard]] bool is_cluster_list(std::string_view text);

/// Fails with kInvalid if the id is not a Slurm job id (for kLocalCluster: not a local job's id),
/// or if the cluster's name is malformed. The message escapes unprintable characters.
[[nodiscard]] Result<> check_job_id(const JobId& job);

}  // namespace dlrun
