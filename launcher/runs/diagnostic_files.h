#pragma once
// Finds the files of a run that only show what happened in it: the output of the ranks and of the
// job, the logs of dlrun, the stacks of hung ranks, traces and profiles.

#include <filesystem>
#include <functional>
#include <string>

#include "common/result.h"

namespace dlrun {

/// Receives what visit_diagnostic_files() finds.
struct DiagnosticVisitor {
  /// A file: its folder and its name.
  std::function<void(int folder, const std::string& name)> file;
  /// A folder of dlrun whose files were visited; it may have other files.
  std::function<void(int parent, const std::string& name)> folder;
  /// A folder that is not entered, because something is mounted there: its path in the directory.
  std::function<void(const std::string& path)> mounted;
};

/// Returns the trainer's checkpoint folder as the run's plan.json has it, such as "ckpt", or an
/// absolute path; empty if there is none.
[[nodiscard]] std::string checkpoint_folder_of(const std::filesystem::path& run);

/// Visits the diagnostic files in the directory of a run, of an array or of a point. Visits only
/// regular files with exactly the names that dlrun gives, because a program may keep checkpoints
/// under any other name. Enters neither mount points nor the checkpoint folder. checkpoint_folder:
/// a path from the directory, or an absolute one. Fails if a folder cannot be read.
[[nodiscard]] Result<> visit_diagnostic_files(int directory, const std::string& checkpoint_folder,
                                              const DiagnosticVisitor& visitor);

}  // namespace dlrun
