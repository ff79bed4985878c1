#pragma once
// Asks NCCL and torch about a hang, if the program has enabled that. NCCL's RAS subsystem
// (reliability, availability, serviceability) knows the state of all communicators, and answers on
// a port of the node. torch's flight recorder writes a dump to a file when it reads from its named
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

inline constexpr std::uint16_t kRasPort = 28028;  ///< NCCL's default

/// Asks NCCL's RAS on this node for its verbose status. Returns nullopt if there is no answer
/// within limit. The answer has about one MiB at most. Any process may listen on the port, so the
/// answer is untrusted: it is only shown to the user.
[[nodiscard]] std::optional<std::string> ask_nccl_ras(std::chrono::milliseconds limit,
                                                      std::uint16_t port = kRasPort);

/// Makes the flight recorder of a torch process write its dump, and copies the dump to `copy`.
/// program_env: environment of that process. rank: rank of that process. Returns false if the
/// recorder is off or does not read its pipe, if it writes no dump within limit, or if its dump
/// cannot be copied.
[[nodiscard]] bool copy_flight_record(const Env& program_env, int rank,
                                      const std::filesystem::path& copy,
                                      std::chrono::milliseconds limit);

/// Returns the environment with which a process was started; empty if it cannot be read.
[[nodiscard]] Env environment_of(pid_t pid);

}  // namespace dlrun::agent
