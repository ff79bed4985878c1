#pragma once
// Copies of dlrun-agent, dlrun-trainer and their modules beside the runs:
// <runs>/.agents-UID/<hash>/. The folder's name is a hash of the contents, so that a run keeps the
// agent it started with and ten thousand runs share one copy. Each user of a runs folder has a
// separate folder there, because a job must not execute another user's files.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// The programs and modules for compute nodes that belong to this build of dlrun: dlrun-agent,
/// dlrun-trainer, ... Their hashes are known at build time, so dlrun computes none when it renders
/// a job script.
struct ToolSet {
  struct File {
    /// Path below the installation's root: bin/dlrun-agent, lib/dlrun/dlrun-comm-mpi.so.
    std::string relative_path;
    std::string sha256;  ///< hexadecimal
  };
  std::string hash;  ///< hash of all files, and the name of the folder
  std::vector<File> files;
};

/// Fails with kInvalid if the path is not a directory of this user (ownership.h), or if others can
/// write to it, because dlrun or jobs would then use files of other users. Fails with kIo if the
/// path does not exist or cannot be examined. remedy: the end of the message if the path is not a
/// directory of this user.
[[nodiscard]] Result<> check_own_folder(
    const std::filesystem::path& folder,
    std::string_view remedy = "choose another runs folder with --runs");

/// Returns <runs>/.agents-UID/<hash>, this user's folder for these tools.
[[nodiscard]] std::filesystem::path tools_folder(const std::filesystem::path& runs_dir,
                                                 const ToolSet& tools);

/// Fails as check_own_folder() does for tools_folder() and the folder above it. Accepts folders
/// that do not exist yet.
[[nodiscard]] Result<> check_tools_folder(const std::filesystem::path& runs_dir,
                                          const ToolSet& tools);

/// Returns a sentence about a folder, runs_dir or one above it, in which other users can rename or
/// replace this user's files: it is writable for others and has no sticky bit, or its owner is
/// neither this user nor root. Returns nullopt if all folders are safe.
[[nodiscard]] std::optional<std::string> warning_about_runs_folder(
    const std::filesystem::path& runs_dir);

/// Whether a job runs dlrun-trainer, which is a package of its own and may be missing.
enum class TrainerUse { kNone, kNeeded };

/// Returns the error for a trainer that is not installed. needed_by: a noun for the message,
/// such as "this job".
[[nodiscard]] Error missing_trainer_error(const std::filesystem::path& trainer,
                                          std::string_view needed_by);

/// Copies missing tools from below root into tools_folder(). Writes each tool under a temporary
/// name, verifies its hash, and renames it after fsync. Costs a few system calls if nothing is
/// missing. Skips a module (lib/) that is not installed, and a trainer that is not installed if the
/// job does not need the trainer. Fails as check_own_folder() does, with kInvalid if a file belongs
/// to another build of dlrun, with kNotFound if a program is missing, and with kIo if no program in
/// runs_dir can be executed (noexec) or runs_dir cannot be written.
[[nodiscard]] Result<> copy_missing_tools(const std::filesystem::path& root,
                                          const std::filesystem::path& runs_dir,
                                          const ToolSet& tools,
                                          TrainerUse use = TrainerUse::kNeeded);

}  // namespace dlrun
