#pragma once
// Removes temporary files of copies whose processes were killed.

#include <chrono>
#include <filesystem>
#include <functional>
#include <string_view>

namespace dlrun::agent {

/// A file that nobody has changed for this time is a leftover, unless a process holds a lock on it.
/// A process that copies changes its file all the time.
inline constexpr std::chrono::seconds kLeftoverAge{3600};

/// Removes each regular file of the folder for which all these conditions hold:
/// - is_temporary() accepts the file's name;
/// - the file belongs to this user;
/// - nobody has changed the file for the time `age`;
/// - no process holds a lock on the file (flock).
/// Does nothing if the folder cannot be read.
void remove_leftovers(const std::filesystem::path& folder,
                      const std::function<bool(std::string_view)>& is_temporary,
                      std::chrono::seconds age = kLeftoverAge);

/// Returns true if the text is not empty and has lower-case hex digits only.
[[nodiscard]] bool are_hex_digits(std::string_view text);

}  // namespace dlrun::agent
