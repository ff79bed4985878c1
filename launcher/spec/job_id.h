#pragma once
// The one place that says what a job's id and a cluster's name look like. Both are read from files
// that others may have written, and then become words of a command line, parts of a URL and the
// target of a signal.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// The cluster name of jobs that dlrun runs on this machine itself.
inline constexpr std::string_view kLocalCluster = "local";

struct JobId {
  std::string cluster;  ///< empty: the default cluster; kLocalCluster: this machine
  std::string id;       ///< Slurm's ("42", "42_7"); HOST:PID:START for a local job
  friend bool operator==(const JobId&, const JobId&) = default;
};

/// A job that runs on one machine without Slurm: with its start time a pid names a process for
/// good.
struct LocalJob {
  std::string host;
  pid_t pid = -1;
  std::uint64_t start_ticks = 0;  ///< since boot; see process_start_ticks()
};

/// True for "42" and "42_7", of at most ten digits each: ^[0-9]+(_[0-9]+)?$.
[[nodiscard]] bool is_slurm_job_id(std::string_view text);

/// HOST:PID:START in its parts; nothing for any other text, and for 0, which is no process's pid.
[[nodiscard]] std::optional<LocalJob> parse_local_job(std::string_view text);

/// True for what can follow -M: names of letters, digits, '_', '.' and '-', separated by commas,
/// none of which starts with '-'. The empty name is the default cluster.
[[nodiscard]] bool is_cluster_name(std::string_view text);

/// Fails with kInvalid where the id is not one that Slurm, or this machine for kLocalCluster, gives
/// to a job, or where the cluster has no cluster's name. The message quotes the word printably.
[[nodiscard]] Result<> check_job(const JobId& job);

}  // namespace dlrun
