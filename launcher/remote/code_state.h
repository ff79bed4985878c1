#pragma once
// A hash of everything that rsync compares. If both machines have the same hash, the copy of the
// code is current, and rsync need not start.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// Returns the hash of the files below `top`: of their names, types, sizes, times of modification
/// in whole seconds, modes and links' targets, and of the modes of their folders. A missing file
/// also changes the hash. names: relative to `top`, sorted.
[[nodiscard]] std::string state_of_files(const std::filesystem::path& top,
                                         const std::vector<std::string>& names);

/// Returns true if the files of the mirror have this state. The mirror is the copy of the code on
/// the host. root: the host's folder for such copies. mirror: the name of the copy's folder in
/// root. state: the result of state_of_files() on the user's machine. The names of the files come
/// from the list that write_file_list() wrote beside the mirror. Returns false if there is no list,
/// or if `state` is empty.
[[nodiscard]] bool is_mirror_current(const std::filesystem::path& root, const std::string& mirror,
                                     std::string_view state);
/// Replaces the list of files that is_mirror_current() reads. list: the names with a NUL after
/// each. The caller must hold the mirror's lock, and the files must be on the host already.
[[nodiscard]] Result<> write_file_list(const std::filesystem::path& root, const std::string& mirror,
                                       std::string_view list);

}  // namespace dlrun
