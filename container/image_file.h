#pragma once
// Checks whether a file is a container image, by its first bytes.

#include <string>

#include "container/container.h"

namespace dlrun {

/// Returns why the backend cannot use the existing file or folder at `path` as an image; empty if
/// no problem is known. Opens regular files only.
[[nodiscard]] std::string why_no_image(const std::string& path, const ContainerBackend& backend);

}  // namespace dlrun
