#pragma once
// Asks Slurm for the limits on the hours of a Slurm account and for the hours that it has used.
// Also asks for the names of the partitions, accounts and QOSs that a job may ask for, and for the
// sizes of the partitions.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"

namespace dlrun {

/// A limit on the time for which an account may use one resource (GrpTRESMins). All amounts are
/// minutes of the resource: two GPUs for an hour are 120.
struct AccountLimit {
  std::string resource;  ///< Slurm's name: cpu, gres/gpu, node, billing
  /// The user whose use the limit bounds; empty: the limit bounds the use of the whole account.
  std::string user;
  double limit_minutes = 0, used_minutes = 0;
  double reserved_minutes = 0;  ///< reserved for running jobs until their time limits
  /// Returns the limit minus the used and the reserved minutes; at least 0.
  [[nodiscard]] double left_minutes() const;
};

struct AccountUse {
  std::string account;
  std::vector<AccountLimit> limits;  ///< empty: no limit on the hours
};

inline constexpr std::string_view kSshareFormat = "Account,User,GrpTRESMins,GrpTRESRaw,TRESRunMins";
/// Parses the output of sshare -n -P -o kSshareFormat. Reads only the lines of the account. Returns
/// nullopt if no line is about the account.
[[nodiscard]] std::optional<AccountUse> parse_sshare(std::string_view out,
                                                     std::string_view account);

/// The settings of queries to Slurm.
struct SlurmQuerySettings {
  const Env& env;       ///< the submitter's environment
  std::string cluster;  ///< the cluster's name for -M; empty: the default cluster
  std::chrono::milliseconds query_timeout;  ///< the time limit of each query
};

/// Returns the limits of the account and how much of each is used. An empty `account` means the
/// user's default account, which sacctmgr names. Returns nullopt if the cluster has no
/// accounting, if it does not use the plugin priority/multifactor, if the account is unknown, or if
/// Slurm does not answer in time.
[[nodiscard]] std::optional<AccountUse> account_use(const SlurmQuerySettings& settings,
                                                    std::string account);

/// A partition and the number of its nodes, in all states.
struct PartitionSize {
  std::string name;
  bool is_default = false;
  std::int64_t nodes = 0;
};

/// Returns the partitions that sinfo shows, each once; empty if sinfo fails.
[[nodiscard]] std::vector<std::string> partition_names(const SlurmQuerySettings& settings);
/// Parses the output of sinfo -h -o "%P|%D", which may have several lines for a partition.
[[nodiscard]] std::vector<PartitionSize> parse_partition_sizes(std::string_view out);
/// Returns the sizes of the partitions that sinfo shows; empty if sinfo fails.
[[nodiscard]] std::vector<PartitionSize> partition_sizes(const SlurmQuerySettings& settings);
/// Returns the user's accounts in Slurm, each once; empty if sacctmgr fails.
[[nodiscard]] std::vector<std::string> account_names(const SlurmQuerySettings& settings);
/// Returns the QOSs that the user may ask for, each once; empty if sacctmgr fails.
[[nodiscard]] std::vector<std::string> qos_names(const SlurmQuerySettings& settings);

}  // namespace dlrun
