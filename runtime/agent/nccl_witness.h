#pragma once
// Asks NCCL and torch about a hang, where the program has that on. NCCL's RAS subsystem answers on
// a port of the node; torch's flight recorder writes a file when something is written into its
// pipe.
//
// Sources: NCCL user guide, "RAS"; torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp,
// TORCH_NCCL_DEBUG_INFO_PIPE_FILE.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/env.h"

namespace dlrun::agent {

inline constexpr std::uint16_t kRasPort = 28028;

/// Asks NCCL's RAS on this node for its verbose status. Nothing where nobody answers within limit.
/// The answer is at most a mebibyte; whoever holds the port wrote it, so it is shown to people and
/// decides nothing.
[[nodiscard]] std::optional<std::string> ask_nccl_ras(std::chrono::milliseconds limit,
                                                      std::uint16_t port = kRasPort);

/// Lets torch's flight recorder of a process write its dump, and copies it to `copy`. program: the
/// process's own environment. rank: the process's in its world. False where the recorder is off or
/// does not write within limit.
[[nodiscard]] bool copy_flight_record(const Env& program, int rank,
                                      const std::filesystem::path& copy,
                                      std::chrono::milliseconds limit);

/// The environment that a process was started with; empty where it cannot be read.
[[nodiscard]] Env environment_of(pid_t pid);

}  // namespace dlrun::agent
