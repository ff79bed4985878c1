#pragma once
// The folders for the job's standard output and errors. Slurm does not create them. If one is
// missing, the job ends before its script begins, without a log.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/load.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// The result of check_log_folders().
struct LogFolderFindings {
  std::vector<std::filesystem::path> missing;  ///< missing folders that probably can be created
  std::vector<Diagnostic> problems;            ///< errors and warnings, with their places
};

/// The job script whose --output and --error are checked.
struct ScriptForLogCheck {
  std::string_view text;
  std::filesystem::path start_folder;
  std::string file;  ///< the script's name in messages
  /// The spec that produced the script; nullptr for a script written by hand.
  const LoadedSpec* spec = nullptr;
  /// True if the script's --output is the user's; false if the run's log replaces it.
  bool keeps_user_output = false;
  /// The name that sbatch gets if the script has no --job-name; replaces %x.
  std::string job_name = {};
};

/// Finds the missing folders; creates none. Adds an error for a folder that cannot be created, and
/// for a folder whose name contains the job's id, because this folder cannot exist before the job
/// does. Adds a warning for other patterns that only Slurm can replace, and for an absolute path
/// that may exist on the nodes only.
[[nodiscard]] LogFolderFindings check_log_folders(const ScriptForLogCheck& script);

/// Reports the findings if all are warnings. Fails with kInvalid and all findings if one is an
/// error.
[[nodiscard]] Result<> report_log_folder_findings(Reporter& reporter,
                                                  const LogFolderFindings& findings);

/// Creates the missing folders with the user's umask. Fails with kIo if a folder cannot be created.
[[nodiscard]] Result<> make_missing_log_folders(const LogFolderFindings& findings);

}  // namespace dlrun
