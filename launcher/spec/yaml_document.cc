#include "launcher/spec/yaml_document.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <yaml.h>

#include "common/text.h"

namespace dlrun {
namespace {

/// libyaml's parser and the event it is at, released whatever happens.
class EventStream {
 public:
  explicit EventStream(std::string_view text) {
    // A byte order mark, as some editors write it. libyaml passes over it only when it is to guess
    // the encoding.
    if (constexpr std::string_view kMark = "\xEF\xBB\xBF"; text.starts_with(kMark))
      text.remove_prefix(kMark.size());
    is_ready_ = yaml_parser_initialize(&parser_) != 0;
    if (is_ready_) {
      yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
      yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                   text.size());
    }
  }
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;
  ~EventStream() {
    drop();
    if (is_ready_) yaml_parser_delete(&parser_);
  }

  /// The next event, owned by this object until the next call; nullptr when the parser found an
  /// error.
  [[nodiscard]] const yaml_event_t* next() {
    drop();
    if (!is_ready_ || yaml_parser_parse(&parser_, &event_) == 0) return nullptr;
    has_event_ = true;
    return &event_;
  }
  [[nodiscard]] const yaml_parser_t& parser() const { return parser_; }

 private:
  void drop() {
    if (has_event_) yaml_event_delete(&event_);
    has_event_ = false;
  }

  yaml_parser_t parser_{};
  yaml_event_t event_{};
  bool is_ready_ = false;
  bool has_event_ = false;
};

[[nodiscard]] std::string_view view(const yaml_char_t* text) {
  return text != nullptr ? std::string_view(reinterpret_cast<const char*>(text))
                         : std::string_view();
}

[[nodiscard]] YamlProblem problem_at(const yaml_mark_t& mark, std::string message) {
  return {static_cast<int>(mark.line) + 1, static_cast<int>(mark.column) + 1, std::move(message)};
}

/// libyaml calls a tab among leading spaces a character that cannot start a token.
[[nodiscard]] bool is_tab_at(std::string_view text, const yaml_mark_t& mark) {
  for (std::size_t line = 0; line < mark.line; ++line) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
  return mark.column < text.size() && text[mark.column] == '\t' &&
         text.substr(0, mark.column).find_first_not_of(' ') == std::string_view::npos;
}

/// The reader's own errors (encoding, control characters) carry a byte offset in place of a mark.
[[nodiscard]] YamlProblem parser_problem(const yaml_parser_t& parser, std::string_view text) {
  const std::string what = parser.problem != nullptr ? parser.problem : "out of memory";
  if (parser.error != YAML_READER_ERROR) {
    if (is_tab_at(text, parser.problem_mark)) {
      return problem_at(parser.problem_mark, "a tab cannot indent in YAML; use spaces");
    }
    if (parser.context != nullptr) {
      return problem_at(parser.problem_mark,
                        fmt::format("{} {} that starts at line {}", what, parser.context,
                                    parser.context_mark.line + 1));
    }
    return problem_at(parser.problem_mark, what);
  }
  const std::string_view before = text.substr(0, std::min(text.size(), parser.problem_offset));
  const auto line_start = before.rfind('\n');
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(line_start == std::string_view::npos ? before.size()
                                                                : before.size() - line_start - 1) +
              1,
          what};
}

[[nodiscard]] bool means_null(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

/// Builds the tree from events. Depth and size of every finished collection are kept for the
/// aliases to it.
class TreeBuilder {
 public:
  /// bytes: of the text, of which most nodes take two at least: room at once costs less than room
  /// that doubles.
  TreeBuilder(const YamlLimits& limits, std::size_t bytes) : limits_(limits) {
    const std::size_t most = std::min(limits.nodes, bytes / 2 + 1);
    nodes_.reserve(most);
    extents_.reserve(most);
  }

  [[nodiscard]] tl::expected<void, YamlProblem> scalar(const yaml_event_t& event) {
    const auto& data = event.data.scalar;
    YamlNode node;
    node.text.assign(reinterpret_cast<const char*>(data.value), data.length);
    node.is_plain = data.style == YAML_PLAIN_SCALAR_STYLE && data.tag == nullptr;
    node.kind =
        node.is_plain && means_null(node.text) ? YamlNode::Kind::kNull : YamlNode::Kind::kScalar;
    if (auto fine = check_tag(view(data.tag), YAML_STR_TAG, event.start_mark); !fine) return fine;
    if (auto fine = add(std::move(node), event.start_mark, {1, 0}); !fine) return fine;
    return data.anchor == nullptr ? tl::expected<void, YamlProblem>()
                                  : name(view(data.anchor), false, event.start_mark);
  }

  [[nodiscard]] tl::expected<void, YamlProblem> open(YamlNode::Kind kind, std::string_view anchor,
                                                     std::string_view tag,
                                                     const yaml_mark_t& mark) {
    if (auto fine =
            check_tag(tag, kind == YamlNode::Kind::kMap ? YAML_MAP_TAG : YAML_SEQ_TAG, mark);
        !fine)
      return fine;
    if (open_.size() >= limits_.levels) return too_deep(mark);
    YamlNode node;
    node.kind = kind;
    if (auto fine = add(std::move(node), mark, {1, 1}); !fine) return fine;
    open_.push_back({last_, std::string(anchor)});
    return anchor.empty() ? tl::expected<void, YamlProblem>() : name(anchor, true, mark);
  }

  void close() {
    const Open closed = std::move(open_.back());
    open_.pop_back();
    if (auto found = anchors_.find(closed.anchor);
        found != anchors_.end() && found->second.id == closed.id) {
      found->second.is_open = false;
    }
    if (!open_.empty()) grow(open_.back().id, extents_[closed.id]);
  }

  [[nodiscard]] tl::expected<void, YamlProblem> alias(std::string_view name,
                                                      const yaml_mark_t& mark) {
    const auto found = anchors_.find(name);
    if (found == anchors_.end())
      return quoting(mark, fmt::format("alias '*{}' has no anchor '&{}' before it", name, name));
    if (found->second.is_open)
      return quoting(
          mark, fmt::format("alias '*{}' stands inside its own anchor: an endless cycle", name));
    const Extent extent = extents_[found->second.id];
    if (open_.size() + extent.levels > limits_.levels) return too_deep(mark);
    total_ += extent.nodes;
    if (total_ > limits_.nodes) return too_many(mark);
    attach(found->second.id, extent);
    return {};
  }

  [[nodiscard]] YamlDocument take() && { return {std::move(nodes_), root_, total_}; }

 private:
  struct Extent {
    std::size_t nodes, levels;  ///< with everything below, aliases expanded
  };
  struct Anchor {
    YamlId id;
    bool is_open;
  };
  struct Open {
    YamlId id;
    std::string anchor;
  };

  [[nodiscard]] static tl::unexpected<YamlProblem> wrong(const yaml_mark_t& mark,
                                                         std::string message) {
    return tl::unexpected(problem_at(mark, std::move(message)));
  }
  [[nodiscard]] static tl::unexpected<YamlProblem> quoting(const yaml_mark_t& mark,
                                                           std::string message) {
    YamlProblem problem = problem_at(mark, std::move(message));
    problem.quotes = true;
    return tl::unexpected(std::move(problem));
  }
  [[nodiscard]] tl::unexpected<YamlProblem> too_deep(const yaml_mark_t& mark) const {
    return wrong(mark, fmt::format("nested deeper than {} levels", limits_.levels));
  }
  [[nodiscard]] tl::unexpected<YamlProblem> too_many(const yaml_mark_t& mark) const {
    return wrong(mark, fmt::format("more than {} nodes, aliases expanded", limits_.nodes));
  }
  [[nodiscard]] static tl::expected<void, YamlProblem> check_tag(std::string_view tag,
                                                                 std::string_view allowed,
                                                                 const yaml_mark_t& mark) {
    if (tag.empty() || tag == allowed || tag == "!") return {};
    return quoting(mark, fmt::format("tag '{}' is not supported", printable(tag)));
  }

  /// The last node has this anchor.
  [[nodiscard]] tl::expected<void, YamlProblem> name(std::string_view anchor, bool is_open,
                                                     const yaml_mark_t& mark) {
    anchors_[std::string(anchor)] = {last_, is_open};
    if (anchors_.size() > limits_.anchors)
      return wrong(mark, fmt::format("more than {} anchors", limits_.anchors));
    return {};
  }

  [[nodiscard]] tl::expected<void, YamlProblem> add(YamlNode node, const yaml_mark_t& mark,
                                                    Extent extent) {
    if (++total_ > limits_.nodes) return too_many(mark);
    node.line = static_cast<int>(mark.line) + 1;
    node.column = static_cast<int>(mark.column) + 1;
    last_ = static_cast<YamlId>(nodes_.size());
    nodes_.push_back(std::move(node));
    extents_.push_back(extent);
    const bool is_collection =
        extent.levels > 0;  // grows its parent when it is closed and its extent is known
    attach(last_, is_collection ? Extent{0, 0} : extent);
    return {};
  }
  void attach(YamlId id, Extent extent) {
    if (open_.empty()) {
      root_ = id;
      return;
    }
    nodes_[open_.back().id].items.push_back(id);
    grow(open_.back().id, extent);
  }
  void grow(YamlId parent, Extent child) {
    extents_[parent].nodes += child.nodes;
    extents_[parent].levels = std::max(extents_[parent].levels, child.levels + 1);
  }

  YamlLimits limits_;
  std::vector<YamlNode> nodes_;
  std::vector<Extent> extents_;
  std::map<std::string, Anchor, std::less<>> anchors_;
  std::vector<Open> open_;
  std::size_t total_ = 0;
  YamlId root_ = 0, last_ = 0;
};

}  // namespace

tl::expected<YamlDocument, YamlProblem> parse_yaml(std::string_view text,
                                                   const YamlLimits& limits) {
  if (text.size() > limits.bytes) {
    return tl::unexpected(
        YamlProblem{0, 0, fmt::format("{} bytes, at most {} are read", text.size(), limits.bytes)});
  }
  EventStream events(text);
  TreeBuilder tree(limits, text.size());
  int documents = 0;
  for (;;) {
    const yaml_event_t* event = events.next();
    if (event == nullptr) return tl::unexpected(parser_problem(events.parser(), text));
    tl::expected<void, YamlProblem> fine;
    switch (event->type) {
      case YAML_STREAM_END_EVENT:
        if (documents == 0) return YamlDocument{{YamlNode{}}, 0};
        return std::move(tree).take();
      case YAML_DOCUMENT_START_EVENT:
        if (++documents > 1) {
          return tl::unexpected(
              problem_at(event->start_mark, "a second YAML document; one file holds one"));
        }
        break;
      case YAML_SCALAR_EVENT:
        fine = tree.scalar(*event);
        break;
      case YAML_ALIAS_EVENT:
        fine = tree.alias(view(event->data.alias.anchor), event->start_mark);
        break;
      case YAML_SEQUENCE_START_EVENT:
        fine = tree.open(YamlNode::Kind::kSequence, view(event->data.sequence_start.anchor),
                         view(event->data.sequence_start.tag), event->start_mark);
        break;
      case YAML_MAPPING_START_EVENT:
        fine = tree.open(YamlNode::Kind::kMap, view(event->data.mapping_start.anchor),
                         view(event->data.mapping_start.tag), event->start_mark);
        break;
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        tree.close();
        break;
      default:
        break;
    }
    if (!fine) return tl::unexpected(std::move(fine.error()));
  }
}

}  // namespace dlrun
