#pragma once
// The backends there are. A new one: its file, its function here, its row in backends.cc.

#include "container/container.h"

namespace dlrun {

[[nodiscard]] const ContainerBackend& pyxis_backend();
[[nodiscard]] const ContainerBackend& enroot_backend();
[[nodiscard]] const ContainerBackend& apptainer_backend();
[[nodiscard]] const ContainerBackend& no_container_backend();

}  // namespace dlrun
