#pragma once
// `dlrun-agent autopsy`: before a rank that hangs is ended, where each of its processes stands is
// written into the run. A process of its own, so that a debugger that hangs holds up nobody; the
// rank's agent starts it and may kill it.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"

namespace dlrun::agent {

struct AutopsyOptions {
  std::filesystem::path file{};  ///< where the text goes; its folder is made
  int rank = 0;
  bool asks_ras = false;      ///< one rank of a node asks NCCL's RAS
  std::vector<pid_t> pids{};  ///< the rank's processes
};

/// Writes the file and prints one line of JSON on standard output: {"frames":[...],"pid":N}, the
/// stack that stands for the rank: the main thread's of its largest process. Returns the exit code.
[[nodiscard]] int run_autopsy(const AutopsyOptions& options, const Env& env);

inline constexpr std::size_t kFramesLimit = 16;
inline constexpr std::size_t kFrameLimitBytes = 160;

/// The frames in such a line, bounded; none where the line is not one.
[[nodiscard]] std::vector<std::string> frames_of_line(std::string_view line);

}  // namespace dlrun::agent
