#pragma once
// One directory for everything about one submission; runtime/ENVIRONMENT.md lists what lies in it.

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

struct RunDirectory {
  std::string id;  ///< NAME-YYYYMMDD-HHMMSS-xxxx, the directory's name
  std::string name;
  std::filesystem::path path;
  std::string created;  ///< UTC, milliseconds
  bool is_indexed = true;

  /// What other commands find it by.
  [[nodiscard]] std::string handle() const { return is_indexed ? id : path.string(); }
};

/// Whether a run can be made below runs_dir, which need not be there; makes nothing. Fails with
/// kIo, naming the directory that is no directory, or not to be written into.
[[nodiscard]] Result<> check_runs_place(const std::filesystem::path& runs_dir);

/// Makes runs_dir (0700 where it is missing) and in it a new, private directory that nobody else
/// has. The time in the id is the local one. Fails with kIo, naming the directory.
[[nodiscard]] Result<RunDirectory> create_run_directory(const std::filesystem::path& runs_dir,
                                                        std::string_view name,
                                                        std::chrono::system_clock::time_point now);

/// The name inside an id; the whole id when it does not have an id's form.
[[nodiscard]] std::string name_of_id(std::string_view id);

/// True when path looks like a run: a directory with a submission, a claim, events or a
/// sweep in it.
[[nodiscard]] bool is_run_directory(const std::filesystem::path& path);

}  // namespace dlrun
