#pragma once
// Asks Slurm for what is left of an account, and for the names of the partitions, accounts and QOSs
// that a job may ask for.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"

namespace dlrun {

/// A limit on the time that an account may use (GrpTRESMins), for one resource. Minutes of the
/// resource: two GPUs for an hour are 120.
struct AccountLimit {
  std::string resource;  ///< Slurm's name: cpu, gres/gpu, node, billing
  /// The user whose use the limit bounds; empty: it bounds the whole account.
  std::string holder;
  double limit_minutes = 0, used_minutes = 0;
  double reserved_minutes = 0;  ///< what the running jobs may still use up to their time limits
  [[nodiscard]] double left_minutes() const;
};

struct AccountUse {
  std::string account;
  std::vector<AccountLimit> limits;  ///< empty: no limit on the hours
};

inline constexpr std::string_view kSshareFormat = "Account,User,GrpTRESMins,GrpTRESRaw,TRESRunMins";
/// Parses the output of sshare -n -P -o kSshareFormat. Keeps the lines of the account. Returns
/// nullopt if there is none.
[[nodiscard]] std::optional<AccountUse> parse_sshare(std::string_view out,
                                                     std::string_view account);

/// Where to ask: the submitter's environment, a cluster's name for -M (empty: the default one), and
/// the time limit of each query.
struct SlurmQuery {
  const Env& env;
  std::string cluster;
  std::chrono::milliseconds at_most;
};

/// Returns what is left of the account. An empty `account` means the user's default account, which
/// sacctmgr names. Returns nullopt if Slurm cannot say: without accounting, without
/// priority/multifactor, or if there is no answer in time.
[[nodiscard]] std::optional<AccountUse> account_use(const SlurmQuery& query, std::string account);

/// Returns the partitions that sinfo shows, each once; empty without an answer.
[[nodiscard]] std::vector<std::string> partition_names(const SlurmQuery& query);
/// Returns the accounts of the user, each once; empty without an answer.
[[nodiscard]] std::vector<std::string> account_names(const SlurmQuery& query);
/// Returns the QOSs that the user may ask for, each once; empty without an answer.
[[nodiscard]] std::vector<std::string> qos_names(const SlurmQuery& query);

}  // namespace dlrun
