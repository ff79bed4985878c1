#pragma once
// The folders that a job's own output and errors go to. Slurm makes none: without one the job ends
// before its script begins, and there is no log that would say so.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cli.h"
#include "launcher/spec/load.h"

namespace dlrun {

struct LogFolders {
  std::vector<std::filesystem::path> missing;  ///< they can be made, as far as can be seen
  std::vector<Diagnostic> found;               ///< errors and warnings, with their places
};

/// What a script's --output and --error name, as a job that starts in `starts_in`.
struct LogScript {
  std::string_view text;
  std::filesystem::path starts_in;
  std::string file;  ///< what messages call it
  const LoadedSpec* spec =
      nullptr;                  ///< whose keys made its lines; nullptr where somebody wrote them
  bool has_own_output = false;  ///< --output is the user's, and not replaced by the run's own
  std::string job_name = {};    ///< for %x where no line gives one: what sbatch is told
};

/// Looks, and makes nothing. A folder whose name only Slurm can fill in cannot be there in time
/// where that is the job's number; an absolute one may lie on the nodes alone.
[[nodiscard]] LogFolders find_log_folders(const LogScript& script);

/// Prints what was found; the Error, which has no message then, says that one cannot be.
[[nodiscard]] Result<> check_log_folders(const Cli& cli, const LogFolders& folders);

/// Makes those that are missing, with the user's umask. Fails with kIo, naming the folder.
[[nodiscard]] Result<> make_log_folders(const LogFolders& folders);

}  // namespace dlrun
