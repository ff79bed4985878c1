#pragma once
// The agent's own exit codes (ENVIRONMENT.md, "Exit codes").

namespace dlrun::agent {

inline constexpr int kExitUsage = 64;
inline constexpr int kExitInternal = 70;
inline constexpr int kExitRunUnwritable = 73;
inline constexpr int kExitRunTaken = 75;
inline constexpr int kExitNotJoined = 76;
inline constexpr int kExitLaunchFailed = 77;
inline constexpr int kExitHung = 79;
inline constexpr int kExitUnfit = 80;
inline constexpr int kExitIdleGpus = 81;
inline constexpr int kExitStaging = 82;
inline constexpr int kExitNotReady = 83;

/// dlrun-trainer's code if the checkpoint folder belongs to another run, or if another attempt owns
/// the run.
inline constexpr int kTrainerRefused = 78;

}  // namespace dlrun::agent
