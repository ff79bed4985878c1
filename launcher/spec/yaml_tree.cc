#include "launcher/spec/yaml_tree.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"

namespace dlrun {
namespace {

[[nodiscard]] tl::expected<void, YamlProblem> check_tag(const YamlNode& node,
                                                        std::string_view tag) {
  const std::string_view allowed = node.kind == YamlNode::Kind::kMap ? "tag:yaml.org,2002:map"
                                   : node.kind == YamlNode::Kind::kSequence
                                       ? "tag:yaml.org,2002:seq"
                                       : "tag:yaml.org,2002:str";
  if (tag.empty() || tag == "!" || tag == allowed) return {};
  return tl::unexpected(problem_that_shows_text(
      {node.line, node.column}, fmt::format("tag '{}' is not supported", printable(tag))));
}

}  // namespace

YamlProblem yaml_problem(YamlPlace where, std::string message) {
  return {where.line, where.column, std::move(message), false};
}

YamlProblem problem_that_shows_text(YamlPlace where, std::string message) {
  return {where.line, where.column, std::move(message), true};
}

YamlTree::YamlTree(const YamlLimits& limits, std::size_t bytes) : limits_(limits) {
  const std::size_t capacity = std::min(limits.nodes, bytes / 2 + 1);
  nodes_.reserve(capacity);
  extents_.reserve(capacity);
}

tl::expected<void, YamlProblem> YamlTree::add(YamlNode node, Anchor anchor, std::string_view tag) {
  if (auto fine = check_tag(node, tag); !fine) return fine;
  if (auto fine = attach_new(std::move(node), {1, 0}); !fine) return fine;
  anchor_newest(anchor, false);
  return {};
}

tl::expected<void, YamlProblem> YamlTree::open(YamlNode node, Anchor anchor, std::string_view tag) {
  if (auto fine = check_tag(node, tag); !fine) return fine;
  if (open_.size() >= limits_.levels) return tl::unexpected(too_deep({node.line, node.column}));
  if (auto fine = attach_new(std::move(node), {1, 1}); !fine) return fine;
  open_.push_back({newest_, anchor});
  anchor_newest(anchor, true);
  return {};
}

void YamlTree::close() {
  const OpenCollection closed = open_.back();
  open_.pop_back();
  if (closed.anchor != 0) anchors_[closed.anchor].is_open = false;
  if (!open_.empty()) grow(open_.back().id, extents_[closed.id]);
}

tl::expected<void, YamlProblem> YamlTree::add_alias(Anchor anchor, std::string_view name,
                                                    YamlPlace where) {
  if (anchor == 0 || anchor >= anchors_.size()) {
    return tl::unexpected(problem_that_shows_text(
        where, fmt::format("alias '*{}' has no anchor '&{}' before it", name, name)));
  }
  const AnchoredNode& found = anchors_[anchor];
  if (found.is_open) {
    return tl::unexpected(problem_that_shows_text(
        where, fmt::format("alias '*{}' stands inside its own anchor: an endless cycle", name)));
  }
  const Extent extent = extents_[found.id];
  if (open_.size() + extent.levels > limits_.levels) return tl::unexpected(too_deep(where));
  total_nodes_ += extent.nodes;
  if (total_nodes_ > limits_.nodes) return tl::unexpected(too_many(where));
  attach(found.id, extent);
  return {};
}

tl::expected<void, YamlProblem> YamlTree::count_anchor_name(std::string_view name,
                                                            YamlPlace where) {
  anchor_names_.emplace(name);
  if (anchor_names_.size() <= limits_.anchors) return {};
  return tl::unexpected(yaml_problem(where, fmt::format("more than {} anchors", limits_.anchors)));
}

YamlDocument YamlTree::take() && {
  return {std::move(nodes_), root_, total_nodes_};
}

YamlProblem YamlTree::too_deep(YamlPlace where) const {
  return yaml_problem(where, fmt::format("nested deeper than {} levels", limits_.levels));
}

YamlProblem YamlTree::too_many(YamlPlace where) const {
  return yaml_problem(
      where, fmt::format("more than {} nodes (an alias counts as all the nodes that it repeats)",
                         limits_.nodes));
}

tl::expected<void, YamlProblem> YamlTree::attach_new(YamlNode node, Extent extent) {
  if (++total_nodes_ > limits_.nodes) return tl::unexpected(too_many({node.line, node.column}));
  newest_ = static_cast<YamlId>(nodes_.size());
  nodes_.push_back(std::move(node));
  extents_.push_back(extent);
  const bool is_collection = extent.levels > 0;  // close() adds its extent to the parent
  attach(newest_, is_collection ? Extent{0, 0} : extent);
  return {};
}

void YamlTree::anchor_newest(Anchor anchor, bool is_open) {
  if (anchor == 0) return;
  anchors_.resize(std::max(anchors_.size(), anchor + 1));
  anchors_[anchor] = {newest_, is_open};
}

void YamlTree::attach(YamlId id, Extent extent) {
  if (open_.empty()) {
    root_ = id;
    return;
  }
  nodes_[open_.back().id].items.push_back(id);
  grow(open_.back().id, extent);
}

void YamlTree::grow(YamlId parent, Extent child) {
  extents_[parent].nodes += child.nodes;
  extents_[parent].levels = std::max(extents_[parent].levels, child.levels + 1);
}

}  // namespace dlrun
