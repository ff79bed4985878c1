#pragma once
// The directory with all files of one submission; runtime/ENVIRONMENT.md lists them.

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// A run and its directory.
struct RunDirectory {
  std::string id;  ///< NAME-YYYYMMDD-HHMMSS-xxxx, the directory's name
  std::string name;
  std::filesystem::path path;
  std::string created;     ///< UTC, with milliseconds
  bool is_indexed = true;  ///< false: the run is not in the index; only its path finds it

  /// Returns the text with which the user refers to the run on a command line.
  [[nodiscard]] std::string handle() const { return is_indexed ? id : path.string(); }
};

/// Checks that a run can be created in runs_dir, which need not exist. Creates nothing. Fails with
/// kIo if runs_dir, or else the nearest existing folder above it, is not a writable directory.
[[nodiscard]] Result<> check_can_create_run_in(const std::filesystem::path& runs_dir);

/// Creates a new private directory (mode 0700) with a unique name in runs_dir. First creates
/// runs_dir, also private, if it is missing. The time in the id is local time. Fails with kIo.
[[nodiscard]] Result<RunDirectory> create_run_directory(const std::filesystem::path& runs_dir,
                                                        std::string_view name,
                                                        std::chrono::system_clock::time_point now);

/// Returns the name in a run's id. Returns `id` unchanged if it does not have the form of an id.
[[nodiscard]] std::string name_of_id(std::string_view id);

/// Returns true if path looks like a run: a directory with a submission, a claim, events or a sweep
/// in it.
[[nodiscard]] bool is_run_directory(const std::filesystem::path& path);

}  // namespace dlrun
