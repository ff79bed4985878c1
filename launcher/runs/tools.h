#pragma once
// dlrun-agent, dlrun-trainer and its modules beside the runs: <runs>/.agents-UID/<hash>/.
// Content-addressed, so a run keeps the agent that it started with and ten thousand runs do not
// copy it. Each user of a runs folder has a place of their own there: what a job executes is nobody
// else's.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// What dlrun was built with. Known at build time: rendering hashes nothing.
struct ToolSet {
  struct File {
    std::string
        place;  ///< below the installation's root: bin/dlrun-agent, lib/dlrun/dlrun-comm-mpi.so
    std::string sha256;  ///< hex
  };
  std::string hash;  ///< of all of them; names the folder
  std::vector<File> files;
};

/// The caller's: the uid is in its name.
[[nodiscard]] std::filesystem::path tools_directory(const std::filesystem::path& runs_dir,
                                                    const ToolSet& tools);

/// Fails with kInvalid where the place of the caller's tools is another user's, or one that others
/// may write: a program of theirs would run as the caller.
[[nodiscard]] Result<> check_tools_place(const std::filesystem::path& runs_dir,
                                         const ToolSet& tools);

/// A sentence about the folder, runs_dir or one above it, in which others than its owner and root
/// may rename or replace what the caller has there (no sticky bit), or which another user owns;
/// nothing where all are safe.
[[nodiscard]] std::optional<std::string> warning_about_place(const std::filesystem::path& runs_dir);

/// Makes sure that all of tools lie in tools_directory(), by their names: copies them from below
/// root where they are missing (temporary name, verified while copying, fsync, rename). Where they
/// are it costs a few system calls. A module (lib/) that is not installed is passed over. Fails
/// with kInvalid when a file is not the one dlrun was built with, kNotFound without a program, kIo
/// when runs_dir cannot execute programs (noexec) or cannot be written.
[[nodiscard]] Result<> stage_tools(const std::filesystem::path& root,
                                   const std::filesystem::path& runs_dir, const ToolSet& tools);

}  // namespace dlrun
