#pragma once
// Data files that are compiled into the program: templates/presets and configs/sites.

#include <span>
#include <string_view>

namespace dlrun {

struct EmbeddedFile {
  std::string_view name;  ///< "presets/torch.yaml"
  std::string_view text;
};

/// Returns all embedded files, sorted by name within each folder.
[[nodiscard]] std::span<const EmbeddedFile> embedded_files();

}  // namespace dlrun
