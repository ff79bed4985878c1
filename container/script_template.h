#pragma once
// Fills in the placeholders of bash text, which container backends add to a job's script.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dlrun {

/// Returns the text with each placeholder replaced by its value. values: pairs such as
/// {"@NAME@", "x"}.
[[nodiscard]] std::string filled(
    std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace dlrun
