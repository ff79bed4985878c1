#pragma once
// The format of the caches in the folder of the index of runs: a first line that identifies the
// format, then lines with a key and further fields, separated by tabs. A cache that cannot be used
// counts as empty.

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace dlrun {

/// Returns the file's text if this user owns the file, the file has at most 64 MiB, and the text
/// starts with `head` (the first line). Otherwise returns an empty text. Follows no link.
[[nodiscard]] std::string read_own_cache(const std::filesystem::path& file, std::string_view head);

/// Calls visit(key, rest of the line) for each whole line of text after head.
void for_each_line(std::string_view text, std::string_view head,
                   const std::function<void(std::string_view, std::string_view)>& visit);

/// Returns the first field of line. Removes this field and the tab after it from line. If line has
/// no tab, all of line is the field.
[[nodiscard]] std::string_view take_field(std::string_view& line);

/// Returns true if every text can be a field: none holds a tab or a line break.
[[nodiscard]] bool have_no_separators(std::span<const std::string_view> texts);

/// Replaces the file. Does nothing if the text is too large for read_own_cache(), and ignores
/// errors: the next command then reads the original files again.
void write_own_cache(const std::filesystem::path& file, std::string_view text);

}  // namespace dlrun
