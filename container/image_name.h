#pragma once
// Converts the names of images in registries to the form of each container tool.

#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// Returns true if the image is a path: it starts with /, ./, ../ or ~/. pyxis and enroot read
/// everything else as a name in a registry.
[[nodiscard]] bool is_image_path(std::string_view image);

/// Returns enroot's form: docker://[USER@][REGISTRY#]IMAGE[:TAG]. Also accepts docker's form, where
/// the first part is the registry if it looks like a host: docker://nvcr.io/nvidia/pytorch:24.05.
/// Fails with kInvalid for paths, for names that end in .sqsh or .sif, and for malformed names.
[[nodiscard]] Result<std::string> enroot_uri(std::string_view image);

/// Returns pyxis's form: enroot's form without the scheme, which pyxis adds itself. pyxis
/// recognises a registry only before '#'. Returns paths and other text unchanged.
[[nodiscard]] std::string pyxis_image_name(std::string_view image);

/// Returns apptainer's form of the name of a registry's image: docker://[REGISTRY/]IMAGE[:TAG].
/// Accepts the forms that enroot_uri() accepts. Returns paths, file names and other text unchanged.
[[nodiscard]] std::string apptainer_image_name(std::string_view image);

}  // namespace dlrun
