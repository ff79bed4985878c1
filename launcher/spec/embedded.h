#pragma once
// Data files that are compiled into the program: templates/presets and configs/sites. embed_yaml.cc
// parses their YAML when dlrun is built. Parsing a preset and a site with yaml-cpp at each start
// would take a tenth of the time that `dlrun render` needs.

#include <cstdint>
#include <span>
#include <string_view>

#include "launcher/spec/yaml_document.h"

namespace dlrun {

/// A YamlNode without pointers, which the dynamic loader would have to adjust at each start.
struct EmbeddedNode {
  YamlNode::Kind kind = YamlNode::Kind::kNull;
  bool is_plain = false;
  std::int32_t line = 0, column = 0;
  std::uint32_t text_offset = 0, text_size = 0;  ///< the node's part of EmbeddedFile::node_texts
  std::uint32_t first_item = 0, item_count = 0;  ///< the node's part of EmbeddedFile::items
};

struct EmbeddedFile {
  std::string_view name;  ///< "presets/torch.yaml"
  std::string_view text;
  std::span<const EmbeddedNode> nodes;
  std::span<const YamlId> items;
  std::string_view node_texts;
  YamlId root = 0;
};

/// Returns all embedded files, sorted by name within each folder.
[[nodiscard]] std::span<const EmbeddedFile> embedded_files();

/// Returns the document that parse_yaml(file.text) would return.
[[nodiscard]] YamlDocument document_of(const EmbeddedFile& file);

}  // namespace dlrun
