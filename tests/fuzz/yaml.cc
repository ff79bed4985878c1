// Fuzzes parsing a YAML text. The result must be a tree within the limits, or an error with a line
// and a column. Only the error about a text that is too long has neither.

#include <algorithm>

#include "common/text.h"
#include "launcher/spec/yaml_document.h"
#include "tests/fuzz/fuzz.h"

using namespace dlrun;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const YamlLimits limits;
  // Lines end with \n, \r or U+0085; the end of the text may count as a line.
  const auto max_line = 2 + std::count_if(text.begin(), text.end(), [](char c) {
                          return c == '\n' || c == '\r' || c == '\x85';
                        });
  const auto is_position = [&](int line, int column) {
    return line >= 1 && line <= max_line && column >= 1 &&
           static_cast<std::size_t>(column) <= text.size() + 1;
  };
  const auto document = parse_yaml(text, limits);
  if (!document) {
    const YamlProblem& problem = document.error();
    fuzz::expect(!problem.message.empty(), "an error has a message");
    fuzz::expect(text.size() > limits.bytes || is_position(problem.line, problem.column),
                 "an error has a line and a column in the text");
    return 0;
  }
  fuzz::expect(document->root < document->nodes.size(), "the root is a node");
  fuzz::expect(document->expanded_nodes <= limits.nodes, "the number of nodes is limited");
  for (const YamlNode& node : document->nodes) {
    const bool is_empty = document->expanded_nodes == 0;
    fuzz::expect(is_empty || is_position(node.line, node.column), "a node has a line and a column");
    fuzz::expect(is_utf8(node.text), "a value is UTF-8");
    fuzz::expect(node.kind != YamlNode::Kind::kMap || node.items.size() % 2 == 0,
                 "a map has as many values as keys");
    for (const YamlId item : node.items)
      fuzz::expect(item < document->nodes.size(), "an item is a node");
  }
  return 0;
}
