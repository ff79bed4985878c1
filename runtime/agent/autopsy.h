#pragma once
// `dlrun-agent autopsy`: writes the stacks of a hung rank's processes into the run directory before
// the rank is ended. The rank's agent starts the autopsy as a separate process, so that a debugger
// that hangs does not block the agent.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"

namespace dlrun::agent {

struct AutopsyOptions {
  std::filesystem::path file{};  ///< output file; its folder is created
  int rank = 0;
  bool asks_ras = false;      ///< asks NCCL's RAS; one rank of each node does (nccl_reports.h)
  std::vector<pid_t> pids{};  ///< the rank's processes
};

/// Writes the file and prints one line of JSON on standard output: {"frames":[...],"pid":N}. The
/// frames are the main thread's stack of the rank's largest process (by resident memory). If no
/// debugger could read the stack, `frames` has one entry: where that thread waits. Without
/// processes there are no frames, and N is 0. Returns the exit code: 1 if the file could not be
/// written, else 0.
[[nodiscard]] int run_autopsy(const AutopsyOptions& options, const Env& env);

inline constexpr std::size_t kFramesLimit = 16;
inline constexpr std::size_t kFrameLimitBytes = 160;

/// Returns the frames in a line that run_autopsy() prints: at most kFramesLimit of them. Cuts each
/// to kFrameLimitBytes, and then escapes its control characters. Returns an empty list for any
/// other text.
[[nodiscard]] std::vector<std::string> frames_of_line(std::string_view line);
/// Returns the frames in the array `frames` of a JSON object, with the same limits.
[[nodiscard]] std::vector<std::string> frames_of(const nlohmann::ordered_json& object);

}  // namespace dlrun::agent
