#pragma once
// Checks by the first bytes of a file whether a backend can use the file as an image.

#include <string>

#include "container/container.h"

namespace dlrun {

/// Returns the reason why the backend cannot use the file or folder at `path` as an image; empty if
/// no problem is known, or if this user may not look into the folder of `path`. Opens only regular
/// files.
[[nodiscard]] std::string why_unusable_as_image(const std::string& path,
                                                const ContainerBackend& backend);

}  // namespace dlrun
