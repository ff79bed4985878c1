#pragma once
// A hash of everything that rsync compares. If both machines have the same hash, the copy of the
// code is current, and rsync need not start.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// Returns the hash of the files below `top`: of their names, types, sizes, times of change in
/// seconds, modes and links' targets, and of the modes of their folders. rsync compares seconds,
/// too. A file that does not exist has a part in the hash as well. names: relative to `top`,
/// sorted.
[[nodiscard]] std::string state_of_files(const std::filesystem::path& top,
                                         const std::vector<std::string>& names);

/// Returns true if the mirror has the files of the last copy in this state. state: the result of
/// state_of_files() on the caller's machine. The names of the files are in a list that the host
/// keeps beside the mirror; returns false if there is none.
[[nodiscard]] bool is_current(const std::filesystem::path& root, const std::string& mirror,
                              std::string_view state);
/// Replaces the list. list: the names with a NUL after each. Call it under the mirror's lock, after
/// a copy.
[[nodiscard]] Result<> keep_file_list(const std::filesystem::path& root, const std::string& mirror,
                                      std::string_view list);

}  // namespace dlrun
