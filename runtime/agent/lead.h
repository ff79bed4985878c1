#pragma once
// `dlrun-agent lead`: one run's leader in the batch step, or on this machine.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/env.h"
#include "runtime/agent/retry.h"

namespace dlrun::agent {

/// health.known_bad: the file of bad nodes that runs share.
struct KnownBadOptions {
  std::filesystem::path file{};  ///< empty: nothing is remembered
  std::chrono::seconds time{7 * 24 * 3600};
};

struct LeadOptions {
  std::filesystem::path runs = "runs";  ///< where a run is made when DLRUN_RUN names none
  std::string name = "run";
  std::optional<int> local;  ///< this many ranks without Slurm
  std::chrono::milliseconds join_timeout{600'000};
  bool forward_usr1 = false;
  std::optional<std::chrono::seconds> hang_after;
  std::optional<std::chrono::seconds> idle_gpu_after;
  bool ends_idle_gpus = false;  ///< a run whose GPUs are idle is ended, not only warned of
  RetryOptions retry;
  KnownBadOptions known_bad;
  bool always_reports =
      false;  ///< the program is dlrun's own (rank --trusted): it reports from its first step on
  std::string
      node_checks;  ///< rank's --preflight: what is checked before the hello; empty: nothing
  std::optional<int>
      never_started;  ///< the script's exit code: there is no step, `command` is what it was at
  std::string
      container_words;  ///< with it: why the container could not be made; empty: that is not why
  std::vector<std::string> command;  ///< an srun line; with local a `dlrun-agent rank` line
};

// Exit codes of lead's own (ENVIRONMENT.md, "Exit codes").
inline constexpr int kExitUsage = 64;
inline constexpr int kExitInternal = 70;
inline constexpr int kExitRunUnwritable = 73;
inline constexpr int kExitRunTaken = 75;
inline constexpr int kExitNotJoined = 76;
inline constexpr int kExitLaunchFailed = 77;
inline constexpr int kExitHung = 79;
inline constexpr int kExitIdleGpus = 81;

/// Leads the run to its end; the process's exit code. Blocks signals and writes to standard error.
/// Once per process.
[[nodiscard]] int lead_run(const LeadOptions& options, const Env& env);

}  // namespace dlrun::agent
