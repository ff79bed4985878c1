#pragma once
// All container backends. To add one, write its file, declare its function here and add
// a row in backends.cc.

#include "container/container.h"

namespace dlrun {

[[nodiscard]] const ContainerBackend& pyxis_backend();
[[nodiscard]] const ContainerBackend& enroot_backend();
[[nodiscard]] const ContainerBackend& apptainer_backend();
[[nodiscard]] const ContainerBackend& no_container_backend();

}  // namespace dlrun
