#pragma once
// Runs the program of chosen ranks under a profiler (the spec's `profile`).

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

struct ProfileOptions {
  std::string tool;           ///< nsys, py-spy or perf; empty: no rank is profiled
  std::vector<int> ranks{0};  ///< the ranks to profile
  int delay_s = 0;            ///< seconds from the start of the program to that of the profile
  int length_s = 0;           ///< seconds of the profile; 0: to the end of the program
  [[nodiscard]] bool includes(int rank) const;
  /// Returns true if the profiler is a process beside the program. Such a profiler writes its
  /// result after the program's end.
  [[nodiscard]] bool attaches() const { return tool == "py-spy" || tool == "perf"; }
  /// Parses "0,8" into ranks. Fails with kUsage if a word is not the number of a rank.
  [[nodiscard]] Result<> set_ranks(std::string_view text);
};

/// Returns the command line that runs argv under the profiler. profiler: its path.
/// output: path of the result without its ending. nsys starts the program itself, and ends with the
/// program's exit code. With py-spy and perf, the process that the agent starts becomes the
/// program, and the profiler attaches to it. The messages of these profilers go to output + ".log".
[[nodiscard]] std::vector<std::string> argv_under_profiler(const ProfileOptions& options,
                                                           const std::string& profiler,
                                                           const std::filesystem::path& output,
                                                           const std::vector<std::string>& argv);

/// Finds the profiler on env's PATH, makes the folder of the result, and returns
/// argv_under_profiler() for the program argv. folder: empty if there is no run directory. Fails
/// with kNotFound if the job does not have the profiler or a run directory, and with kIo if the
/// folder cannot be made.
[[nodiscard]] Result<std::vector<std::string>> prepare_profiling(
    const ProfileOptions& options, const Env& env, const std::filesystem::path& folder, int rank,
    const std::vector<std::string>& argv);

}  // namespace dlrun::agent
