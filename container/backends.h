#pragma once
// All container backends. To add a backend, write its file, declare its function here and add a
// row.

#include <array>
#include <string_view>

#include "container/container.h"

namespace dlrun {

[[nodiscard]] const ContainerBackend& pyxis_backend();
[[nodiscard]] const ContainerBackend& enroot_backend();
[[nodiscard]] const ContainerBackend& apptainer_backend();
[[nodiscard]] const ContainerBackend& charliecloud_backend();
[[nodiscard]] const ContainerBackend& no_container_backend();

struct ContainerBackendRow {
  std::string_view name;  ///< the value of container.runtime
  const ContainerBackend& (*backend)();
};

/// Backends in the order of preference if several tools are installed.
inline constexpr std::array kContainerBackends{
    ContainerBackendRow{"pyxis", pyxis_backend},
    ContainerBackendRow{"enroot", enroot_backend},
    ContainerBackendRow{"apptainer", apptainer_backend},
    ContainerBackendRow{"charliecloud", charliecloud_backend},
    ContainerBackendRow{"none", no_container_backend},
};

}  // namespace dlrun
