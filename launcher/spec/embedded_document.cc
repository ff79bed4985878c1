#include "launcher/spec/embedded.h"

namespace dlrun {

YamlDocument document_of(const EmbeddedFile& file) {
  YamlDocument document;
  document.root = file.root;
  document.expanded_nodes = file.nodes.size();
  document.nodes.reserve(file.nodes.size());
  for (const EmbeddedNode& from : file.nodes) {
    YamlNode& node = document.nodes.emplace_back();
    node.kind = from.kind;
    node.is_plain = from.is_plain;
    node.line = from.line;
    node.column = from.column;
    node.text = file.node_texts.substr(from.text_offset, from.text_size);
    const auto items = file.items.subspan(from.first_item, from.item_count);
    node.items.assign(items.begin(), items.end());
  }
  return document;
}

}  // namespace dlrun
