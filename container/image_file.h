#pragma once
// Whether a file is an image, by its first bytes.

#include <string>
#include <string_view>

namespace dlrun {

/// Why the runtime cannot make a container of the file at path, which exists; empty where nothing
/// is known to be wrong with it. Folders are apptainer's, too. Opens nothing but regular files.
[[nodiscard]] std::string why_no_image(const std::string& path, std::string_view runtime);

}  // namespace dlrun
