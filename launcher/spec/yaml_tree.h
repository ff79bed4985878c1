#pragma once
// Builds the tree of a YAML document from a parser's events, within limits.

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "launcher/spec/yaml_document.h"

namespace dlrun {

/// Line and column of a node, from 1; the column counts characters.
struct YamlPlace {
  int line = 0, column = 0;
};

[[nodiscard]] YamlProblem yaml_problem(YamlPlace where, std::string message);
/// Returns a problem whose message the caller has built with a part of the YAML text, which may be
/// secret.
[[nodiscard]] YamlProblem problem_that_shows_text(YamlPlace where, std::string message);

/// Builds the tree. Every call that adds a node fails if the node would exceed the limits or has an
/// unsupported tag; the caller then stops. Anchors are numbered from 1 in the order of the text; 0
/// means no anchor.
class YamlTree {
 public:
  using Anchor = std::size_t;

  /// bytes: the size of the text. Reserves memory for one node per two bytes of text, because
  /// vectors that grow by doubling would need more memory. Few texts have more nodes.
  YamlTree(const YamlLimits& limits, std::size_t bytes);

  /// Adds a scalar or a null. tag: empty if the node has none.
  [[nodiscard]] tl::expected<void, YamlProblem> add(YamlNode node, Anchor anchor,
                                                    std::string_view tag);
  /// Adds a sequence or a map, to which later nodes belong until close().
  [[nodiscard]] tl::expected<void, YamlProblem> open(YamlNode node, Anchor anchor,
                                                     std::string_view tag);
  void close();
  /// Adds the node of the anchor once more. Fails if no such anchor precedes the alias, or if the
  /// alias is inside the anchor's node. name: the alias's name, for messages.
  [[nodiscard]] tl::expected<void, YamlProblem> add_alias(Anchor anchor, std::string_view name,
                                                          YamlPlace where);
  /// Counts an anchor's name. A name counts once, even if the text defines it several times. Fails
  /// if the text has too many names.
  [[nodiscard]] tl::expected<void, YamlProblem> count_anchor_name(std::string_view name,
                                                                  YamlPlace where);

  [[nodiscard]] YamlProblem too_deep(YamlPlace where) const;

  [[nodiscard]] YamlDocument take() &&;

 private:
  struct Extent {
    std::size_t nodes, levels;  ///< of a node and all below it; an alias counts at each use
  };
  /// The node of an anchor.
  struct AnchoredNode {
    YamlId id = 0;
    bool is_open = false;  ///< the node is a collection that is not closed yet
  };
  struct OpenCollection {
    YamlId id;
    Anchor anchor;
  };

  [[nodiscard]] YamlProblem too_many(YamlPlace where) const;
  [[nodiscard]] tl::expected<void, YamlProblem> attach_new(YamlNode node, Extent extent);
  /// Gives the anchor to the newest node.
  void anchor_newest(Anchor anchor, bool is_open);
  /// Adds a node to the innermost open collection. The first node becomes the root.
  void attach(YamlId id, Extent extent);
  /// Adds the extent of a child to that of its parent.
  void grow(YamlId parent, Extent child);

  YamlLimits limits_;
  std::vector<YamlNode> nodes_;
  std::vector<Extent> extents_;        ///< of each node; complete for closed nodes
  std::vector<AnchoredNode> anchors_;  ///< by number; [0] is unused
  std::set<std::string, std::less<>> anchor_names_;
  std::vector<OpenCollection> open_;
  std::size_t total_nodes_ = 0;
  YamlId root_ = 0, newest_ = 0;
};

}  // namespace dlrun
