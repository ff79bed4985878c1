#pragma once
// Names of images as people write them.

#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// Whether an image is a file: pyxis and enroot read everything else as a name in a registry.
[[nodiscard]] bool is_image_path(std::string_view image);

/// The name as enroot wants it: docker://[USER@][REGISTRY#]IMAGE[:TAG]. Takes docker's own form,
/// too, in which the registry is the first part if it looks like a host:
/// docker://nvcr.io/nvidia/pytorch:24.05. Fails for a path and for what no name can hold.
[[nodiscard]] Result<std::string> enroot_uri(std::string_view image);

/// The image as pyxis wants it: a registry's name in enroot's form, without a scheme, since pyxis
/// puts docker:// before it and reads a registry behind '#' alone. A path, and what is no such
/// name, stays as it is.
[[nodiscard]] std::string pyxis_image(std::string_view image);

/// The image as apptainer wants it: docker://[REGISTRY/]IMAGE[:TAG] for a registry's name in either
/// form. A path, a file's name, and what is no such name, stays as it is.
[[nodiscard]] std::string apptainer_image(std::string_view image);

}  // namespace dlrun
