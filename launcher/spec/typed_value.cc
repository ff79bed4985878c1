#include "launcher/spec/typed_value.h"

#include "common/text.h"
#include "launcher/spec/program_parameters.h"
#include "launcher/spec/value_functions.h"
#include "launcher/spec/yaml_document.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

[[nodiscard]] bool is_text(const KeyRow& row) {
  return traits_of(row).is_text;
}

/// Returns true for keys with lists of whole numbers. These numbers are stored as words in quotes,
/// and only the key's row tells that they are numbers.
[[nodiscard]] bool has_whole_numbers(const KeyRow* row) {
  return row != nullptr && row->format == Format::kCount;
}

[[nodiscard]] Json scalar(const std::string& text, bool is_plain, const KeyRow* row,
                          bool is_for_program) {
  if (has_whole_numbers(row)) {
    if (const auto whole = parse_int(text)) return *whole;
  }
  const bool is_always_text = row == nullptr ? !is_for_program : is_text(*row);
  if (is_always_text || !is_plain) return text;
  if (text == "true" || text == "false") return text == "true";
  if (const auto whole = parse_int(text)) return *whole;
  if (const auto number = parse_double(text)) return *number;
  return text;
}

[[nodiscard]] Json value_of(const YamlDocument& document, YamlId id, const KeyRow* row,
                            bool is_for_program) {
  const YamlNode& node = document.at(id);
  switch (node.kind) {
    case YamlNode::Kind::kNull:
    case YamlNode::Kind::kScalar:
      return scalar(node.text, node.is_plain, row, is_for_program);
    case YamlNode::Kind::kSequence: {
      Json list = Json::array();
      for (const YamlId item : node.items)
        list.push_back(value_of(document, item, row, is_for_program));
      return list;
    }
    case YamlNode::Kind::kMap: {
      Json map = Json::object();
      for (std::size_t i = 0; i + 1 < node.items.size(); i += 2)
        map[document.at(node.items[i]).text] =
            value_of(document, node.items[i + 1], row, is_for_program);
      return map;
    }
  }
  return nullptr;
}

}  // namespace

Json typed_value(const std::string& key, const std::string& yaml) {
  const auto document = parse_yaml(yaml);
  if (!document || document->nodes.empty()) return yaml;
  return value_of(*document, document->root, find_key(key), is_program_parameter(key));
}

}  // namespace dlrun
