#include "container/backends.h"

#include <array>

namespace dlrun {
namespace {

[[nodiscard]] const std::array<const ContainerBackend*, 4>& backends() {
  static const std::array<const ContainerBackend*, 4> table{
      &pyxis_backend(), &enroot_backend(), &apptainer_backend(), &no_container_backend()};
  return table;
}

}  // namespace

const ContainerBackend* find_container_backend(std::string_view name) {
  for (const ContainerBackend* backend : backends()) {
    if (backend->name() == name) return backend;
  }
  return nullptr;
}

std::vector<std::string_view> container_backend_names() {
  std::vector<std::string_view> names;
  for (const ContainerBackend* backend : backends()) names.push_back(backend->name());
  return names;
}

}  // namespace dlrun
