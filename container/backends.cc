#include "container/backends.h"

#include <fmt/format.h>

namespace dlrun {

ExampleImage ContainerBackend::example_image(const std::string& name) const {
  return {name, fmt::format("run by {} here", this->name())};
}

std::string ContainerBackend::why_unusable(ImageKind kind, std::string_view) const {
  if (kind == ImageKind::kFolder) return "it is a folder, not a squashfs file";
  return kind == ImageKind::kSquashfs ? "" : "it is not a squashfs file";
}

const ContainerBackend* find_container_backend(std::string_view name) {
  for (const ContainerBackendRow& row : kContainerBackends) {
    if (row.name == name) return &row.backend();
  }
  return nullptr;
}

std::vector<std::string_view> container_backend_names() {
  std::vector<std::string_view> names;
  for (const ContainerBackendRow& row : kContainerBackends) names.push_back(row.name);
  return names;
}

std::string container_tools_text() {
  auto names = container_backend_names();
  std::erase(names, no_container_backend().name());
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

}  // namespace dlrun
