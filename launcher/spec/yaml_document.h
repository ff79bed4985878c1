#pragma once
// Reads a YAML text into a tree with positions. Limits bound the time and memory for every input.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace dlrun {

using YamlId = std::uint32_t;

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  bool is_plain = false;      ///< a scalar without quotes and without a tag
  int line = 0, column = 0;   ///< counted from 1; columns are characters
  std::string text;           ///< a scalar's value; for kNull the written text ("", "~", "null")
  std::vector<YamlId> items;  ///< a sequence's items; a map's keys and values, alternating
};

/// The tree of a YAML text. An alias shares the node of its anchor, and thus has the anchor's
/// position.
struct YamlDocument {
  std::vector<YamlNode> nodes;
  YamlId root = 0;
  std::size_t expanded_nodes = 0;  ///< number of nodes, with every alias expanded
  [[nodiscard]] const YamlNode& at(YamlId id) const { return nodes[id]; }
};

struct YamlProblem {
  int line = 0, column = 0;  ///< 0: about the text as a whole
  std::string message;
  bool shows_text = false;  ///< the message contains a part of the text
};

struct YamlLimits {
  std::size_t bytes = 1U << 20U;
  std::size_t levels = 64;
  std::size_t nodes = 100'000;   ///< scalars, sequences and maps, with every alias expanded
  std::size_t anchors = 10'000;  ///< different names of anchors
};

/// Returns the key and its ':' if a text starts with a key and a value that no space separates:
/// "time:" of "time:5m". Returns an empty text for any other text, such as an address (http://...).
[[nodiscard]] std::string_view key_lacking_space(std::string_view text);

/// Reads one document with yaml-cpp. For a text without a document, the root is a null.
///
/// Refuses broken syntax, tags other than !!str, !!seq and !!map, a second document, an alias
/// inside its own anchor, and any text that exceeds the limits. Also refuses a value that holds
/// more than 2 * limits.nodes of '[', '{' and ',': yaml-cpp 0.7 reads a whole list or map in
/// brackets before it sends an event about it, and needs 241 MiB for 1 MiB of "[". With the default
/// limits, every text needs less than a second and 128 MiB (worst found: 0.2 s and 92 MiB).
[[nodiscard]] tl::expected<YamlDocument, YamlProblem> parse_yaml(std::string_view text,
                                                                 const YamlLimits& limits = {});

}  // namespace dlrun
