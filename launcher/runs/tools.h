#pragma once
// dlrun-agent and dlrun-trainer beside the runs: <runs>/.agents/<hash>/. Content-addressed, so a run keeps the agent
// that it started with and ten thousand runs do not copy it.

#include <filesystem>
#include <string>

#include "common/result.h"

namespace dlrun {

/// What dlrun was built with. Known at build time: rendering hashes nothing.
struct ToolHashes {
  std::string both;            ///< names the folder
  std::string agent, trainer;  ///< SHA-256, hex
};

[[nodiscard]] std::filesystem::path tools_directory(const std::filesystem::path& runs_dir, const ToolHashes& hashes);

/// Makes sure that both programs lie in tools_directory(), executable: copies them from bin_dir where they are missing
/// (temporary name, verified while copying, fsync, rename). Where they are it costs a few stat calls. Fails with
/// kInvalid when bin_dir's are not those dlrun was built with, kIo when runs_dir cannot execute programs (noexec) or
/// cannot be written.
[[nodiscard]] Result<> stage_tools(const std::filesystem::path& bin_dir, const std::filesystem::path& runs_dir,
                                   const ToolHashes& hashes);

/// SHA-256 of a file, hex.
[[nodiscard]] Result<std::string> sha256_of_file(const std::filesystem::path& path);

}  // namespace dlrun
