#pragma once
// dlrun-agent, dlrun-trainer and its modules beside the runs: <runs>/.agents/<hash>/. Content-addressed, so a run keeps
// the agent that it started with and ten thousand runs do not copy it.

#include <filesystem>
#include <string>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// What dlrun was built with. Known at build time: rendering hashes nothing.
struct ToolSet {
  struct File {
    std::string place;   ///< below the installation's root: bin/dlrun-agent, lib/dlrun/dlrun-comm-mpi.so
    std::string sha256;  ///< hex
  };
  std::string hash;  ///< of all of them; names the folder
  std::vector<File> files;
};

[[nodiscard]] std::filesystem::path tools_directory(const std::filesystem::path& runs_dir, const ToolSet& tools);

/// Fails with kInvalid where runs_dir holds the tools of another user: a program of theirs would run as us.
[[nodiscard]] Result<> check_tools_place(const std::filesystem::path& runs_dir, const ToolSet& tools);

/// Makes sure that all of tools lie in tools_directory(), by their names: copies them from below root where they are
/// missing (temporary name, verified while copying, fsync, rename). Where they are it costs a few system calls. A
/// module (lib/) that is not installed is passed over. Fails with kInvalid when a file is not the one dlrun was built
/// with, kNotFound without a program, kIo when runs_dir cannot execute programs (noexec) or cannot be written.
[[nodiscard]] Result<> stage_tools(const std::filesystem::path& root, const std::filesystem::path& runs_dir,
                                   const ToolSet& tools);

}  // namespace dlrun
