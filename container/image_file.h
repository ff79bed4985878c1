#pragma once
// Checks by its first bytes whether a file is a container image.

#include <string>
#include <string_view>

namespace dlrun {

/// Returns why the runtime cannot use the existing file at `path` as an image; empty if no problem
/// is known. apptainer also accepts directories. Opens regular files only.
[[nodiscard]] std::string why_no_image(const std::string& path, std::string_view runtime);

}  // namespace dlrun
