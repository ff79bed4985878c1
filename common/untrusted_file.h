#pragma once
// The one way in which dlrun, its agent and its trainer read a file that somebody else may have
// written: a run's records, logs, checkpoints, data. It never waits for a FIFO's writer, opens no
// device and reads no more than the caller allows. JSON goes on through common/bounded_json.h.

#include <cstddef>
#include <filesystem>
#include <string>

#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// What to do when the last part of a path is a symbolic link.
enum class Links {
  kFollow,  ///< the name is the user's: a spec, a data set, a log that sbatch was told to write
  kRefuse,  ///< the name is dlrun's own, inside a run directory; dlrun puts no links there
};

/// Opens a regular file for reading. Never blocks, whatever the name stands for. Fails with
/// kNotFound, kIo, or kInvalid when it is not a regular file or is a link that is refused.
[[nodiscard]] Result<UniqueFd> open_untrusted(const std::filesystem::path& path, Links links);

/// Returns the whole file. Fails as open_untrusted() does, and with kInvalid when the file is
/// larger than limit_bytes. read_file() of common/files.h is this function with Links::kFollow.
[[nodiscard]] Result<std::string> read_untrusted(const std::filesystem::path& path,
                                                 std::size_t limit_bytes, Links links);

}  // namespace dlrun
