#pragma once
// Reads files that another user may have written: records of a run, logs, checkpoints, data.
// dlrun, its agent and its trainer read such files only with these functions. The functions never
// wait for the writer of a FIFO, never open a device, and stop at the caller's limit. To parse JSON
// from such a file, use common/bounded_json.h.

#include <cstddef>
#include <filesystem>
#include <string>

#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// The treatment of a path whose last part is a symbolic link.
enum class Links {
  kFollow,  ///< the user chose the path: a spec, a data set, a log that sbatch writes
  kRefuse,  ///< the path is dlrun's own, inside a run directory, where dlrun creates no links
};

/// Opens a regular file for reading, without blocking. Fails with kNotFound or kIo, and with
/// kInvalid if the path is not a regular file or is a refused link.
[[nodiscard]] Result<UniqueFd> open_untrusted(const std::filesystem::path& path, Links links);

/// Returns the whole file. Fails as open_untrusted() does, and with kInvalid if the file is larger
/// than limit_bytes. read_file() of common/files.h calls this function with Links::kFollow.
[[nodiscard]] Result<std::string> read_untrusted(const std::filesystem::path& path,
                                                 std::size_t limit_bytes, Links links);

}  // namespace dlrun
