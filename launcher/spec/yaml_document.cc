#include "launcher/spec/yaml_document.h"

#include <algorithm>
#include <array>
#include <istream>
#include <optional>
#include <streambuf>

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "common/result.h"
#include "common/text.h"
#include "launcher/spec/yaml_source.h"
#include "launcher/spec/yaml_tree.h"

namespace dlrun {
namespace {

constexpr const char* kTabIndents = "a tab cannot indent in YAML; use spaces";

/// The exception that ends a parse. The functions that yaml-cpp calls cannot end a parse in another
/// way. parse_yaml() catches the exception.
struct Refusal {
  YamlProblem problem;
};

/// Throws the problem, if there is one.
void require(tl::expected<void, YamlProblem> fine) {
  if (!fine) throw Refusal{std::move(fine.error())};
}

/// Passes the text to yaml-cpp in pieces, and limits the number of tokens that yaml-cpp may queue.
/// Until yaml-cpp knows whether "[a, b]" is a key, it queues all tokens of this text; a '[' needs
/// up to 240 bytes.
class MeteredText : public std::streambuf {
 public:
  /// most: the largest allowed number of '[', '{' and ',' after the most recent event.
  MeteredText(const std::string& text, std::size_t most) : most_(most) {
    char* begin = const_cast<char*>(text.data());  // streambuf requires it; nothing writes to text
    setg(begin, begin, begin + text.size());
  }
  /// Records that the parser has sent an event about this place.
  void record_event(YamlPlace where) {
    queued_ = 0;
    last_event_ = where;
  }
  [[nodiscard]] YamlPlace place_of_last_event() const { return last_event_; }

 protected:
  std::streamsize xsgetn(char* to, std::streamsize count) override {
    const std::streamsize given = std::streambuf::xsgetn(to, count);
    queued_ += static_cast<std::size_t>(
        std::count_if(to, to + given, [](char c) { return c == '[' || c == '{' || c == ','; }));
    if (queued_ <= most_) return given;
    throw Refusal{yaml_problem(
        last_event_,
        fmt::format("a value that starts here or later holds more than {} of '[', '{{' and "
                    "',', which is the limit",
                    most_))};
  }

 private:
  std::size_t most_, queued_ = 0;
  YamlPlace last_event_{1, 1};
};

/// Converts yaml-cpp's events into calls of the tree. yaml-cpp accepts some texts that YAML does
/// not allow, such as "[a,,b]" and a tab as indentation; this class refuses them.
class EventReader final : public YAML::EventHandler {
 public:
  EventReader(YamlSource& source, MeteredText& text, YamlTree& tree)
      : source_(source), text_(text), tree_(tree) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    const auto at = at_mark(mark);
    if (++document_count_ == 1) return require(source_.check_directives(at));
    throw Refusal{yaml_problem(
        source_.place(at), source_.is_document_start(at)
                               ? "a second YAML document; one file holds one document"
                               : "the document has ended before this text; check the "
                                 "indentation, and put a text with special characters in quotes")};
  }
  void OnDocumentEnd() override {}

  void OnAnchor(const YAML::Mark& mark, const std::string& given) override {
    const auto where = source_.place(at_mark(mark));
    const std::string name = source_.restored(given);
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-';
    };
    if (!std::all_of(name.begin(), name.end(), is_word)) {
      throw Refusal{problem_that_shows_text(
          where, fmt::format("anchor '&{}' holds characters other than letters, digits, '-' and "
                             "'_'; put a text that starts with '&' in quotes",
                             name))};
    }
    require(tree_.count_anchor_name(name, where));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto at = begin_node(mark);
    require(tree_.add_alias(anchor, alias_name(at), source_.place(at)));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const auto at = begin_node(mark);
    YamlNode node = node_at(YamlNode::Kind::kScalar, at);
    node.text = source_.restored(value);
    node.is_plain = tag == "?";
    if (const auto quoted = source_.quoted(at)) check_and_complete_quoted(*quoted, at, node.text);
    require(tree_.add(std::move(node), anchor, given_tag(tag, at)));
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto at = at_mark(mark);
    const auto tag = is_inside(at) ? source_.tag(at) : std::string_view();
    if (!tag.empty()) return add_empty_tagged_text(mark, tag, anchor);
    const std::string_view word = null_word(at);
    if (!word.empty()) return add_null(begin_node(mark), word, anchor);
    const char next = source_.rest(at).empty() ? '\n' : source_.rest(at).front();
    if (is_value() && !is_in_brackets() && at.offset == levels_.back().key.offset) {
      if (auto problem = problem_of_missing_space(at)) throw Refusal{std::move(*problem)};
      throw Refusal{yaml_problem(source_.place(at),
                                 "expected ': ' after this key; a key and its value are written "
                                 "'key: value'")};
    }
    if (is_key_or_item() && next == ':')
      throw Refusal{yaml_problem(source_.place(at), "expected a key before ':'")};
    if (is_key_or_item() && is_in_brackets() && next == ',')
      throw Refusal{yaml_problem(source_.place(at), "expected a value before ','")};
    add_null_for_missing(at, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(YamlNode::Kind::kSequence, mark, tag, anchor, style);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(YamlNode::Kind::kMap, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

  /// Converts an error of yaml-cpp into a message that tells the user what to do.
  [[nodiscard]] YamlProblem problem_of(const YAML::Exception& error);
  [[nodiscard]] std::optional<YamlProblem> problem_of_collection(const std::string& message,
                                                                 const YamlPlace& where) const;
  /// Returns the problem of a line whose first key yaml-cpp refuses because of the previous line.
  /// Either that line is a complete "key: value" and this line is indented further, or that line
  /// lacks the space after its ':' ("key:value"). at: the refused key, or its ':'. Returns nullopt
  /// for any other problem.
  [[nodiscard]] std::optional<YamlProblem> problem_of_line_before(const YamlSource::Position& at);
  /// Returns the problem of a line whose first key, at this position, has an indentation between
  /// those of the lines above. Returns nullopt for any other problem.
  [[nodiscard]] std::optional<YamlProblem> problem_of_indentation(const YamlSource::Position& at);

 private:
  /// A sequence or map that is not closed yet.
  struct Level {
    bool is_map, is_in_brackets;
    YamlSource::Position begin;  ///< the place of its first item or key, or of its bracket
    YamlSource::Position key;    ///< the place of a map's newest key
    std::size_t child_count{};   ///< number of keys and values, or of items
  };

  /// Returns the position of an event's mark, and records the event in text_.
  [[nodiscard]] YamlSource::Position at_mark(const YAML::Mark& mark) {
    const auto at = source_.position_of_mark(mark.pos, mark.line, mark.column);
    text_.record_event(source_.place(at));
    return at;
  }
  [[nodiscard]] bool is_in_brackets() const {
    return !levels_.empty() && levels_.back().is_in_brackets;
  }
  /// Returns true if the next node is a key of a map or an item of a sequence.
  [[nodiscard]] bool is_key_or_item() const {
    return !levels_.empty() && (!levels_.back().is_map || levels_.back().child_count % 2 == 0);
  }
  [[nodiscard]] bool is_value() const { return !levels_.empty() && !is_key_or_item(); }
  [[nodiscard]] YamlNode node_at(YamlNode::Kind kind, const YamlSource::Position& at) const {
    const auto where = source_.place(at);
    YamlNode node;
    node.kind = kind;
    node.line = where.line;
    node.column = where.column;
    return node;
  }

  /// Counts the node at this place as a child of the innermost collection.
  void count_child(const YamlSource::Position& at) {
    if (levels_.empty()) return;
    Level& level = levels_.back();
    if (level.is_map && level.child_count % 2 == 0) level.key = at;
    ++level.child_count;
  }
  /// Returns the place of a node that is written in the text, and counts the node. Refuses a node
  /// that is indented by a tab, or not indented more than its key. is_list: the node is a list
  /// whose items start with '-'; these may start in the column of the key.
  YamlSource::Position begin_node(const YAML::Mark& mark, bool is_list = false) {
    const auto at = at_mark(mark);
    if (!is_in_brackets() && source_.is_first_on_line(at)) {
      if (const auto tab = source_.tab_before(at))
        throw Refusal{yaml_problem(source_.place(*tab), kTabIndents)};
      if (!is_inside(at) && !(is_list && at.column() == levels_.back().begin.column())) {
        throw Refusal{yaml_problem(source_.place(at),
                                   "expected 'key: value'; a value on a line of its own is "
                                   "indented more than its key")};
      }
    }
    count_child(at);
    return at;
  }

  /// Returns the problem if the text at this position is a key and a value without a space between
  /// them; else nullopt.
  [[nodiscard]] std::optional<YamlProblem> problem_of_missing_space(
      const YamlSource::Position& at) const {
    const std::string_view key = key_lacking_space(source_.rest_of_line(at));
    if (key.empty() || source_.past_key(at)) return std::nullopt;
    return problem_that_shows_text(source_.place({at.offset + key.size(), at.line_start, at.line}),
                                   fmt::format("a space is missing after '{}'", key));
  }

  [[nodiscard]] std::string alias_name(const YamlSource::Position& at) const {
    const std::string_view rest = source_.rest(at).substr(1);
    return source_.restored(std::string(rest.substr(0, rest.find_first_of(" \t\n,[]{}"))));
  }
  /// Returns the tag of a node. For a node without a tag, returns "!" if the node is a text in
  /// quotes, otherwise "". yaml-cpp reports the tag of these nodes as "!" and "?".
  [[nodiscard]] std::string given_tag(const std::string& tag,
                                      const YamlSource::Position& at) const {
    // yaml-cpp loses an empty tag, "!<>", and reports only the '!' of "!x" and of !"x" as the tag.
    const std::string_view given = source_.tag(at);
    if (given.starts_with("!<>") || (tag == "!" && !given.empty() && given != "!"))
      return source_.restored(std::string(given));
    return tag == "?" ? "" : source_.restored(tag);
  }

  /// Checks and completes the value of a text in quotes. yaml-cpp accepts the end of the file as a
  /// closing quote, accepts the escape \', which YAML does not have, and keeps at most two of the
  /// line breaks at the end.
  void check_and_complete_quoted(const YamlSource::Quoted& quoted, const YamlSource::Position& at,
                                 std::string& value) const {
    if (!quoted.has_end) {
      throw Refusal{yaml_problem(source_.place(at),
                                 "a text in quotes has no closing quote before the end of the "
                                 "file; close it with the same quote")};
    }
    if (quoted.has_bad_escape) {
      throw Refusal{yaml_problem(source_.place(at),
                                 "\\' is no escape in a text in double quotes; write ' alone")};
    }
    if (quoted.breaks_before_end < 2) return;
    const std::size_t breaks = quoted.breaks_before_end - 1;  // the first line break is folded
    constexpr std::size_t kKeptAfterEscape = 2;
    if (quoted.ends_with_escape) {
      value.append(breaks - std::min(breaks, kKeptAfterEscape), '\n');
    } else {
      value.erase(value.find_last_not_of('\n') + 1);
      value.append(breaks, '\n');
    }
  }

  /// Returns true if a node at this place can be the next child of the innermost collection. For a
  /// missing value, yaml-cpp reports the place of the next token, such as the next key; a node
  /// there cannot be the child.
  [[nodiscard]] bool is_inside(const YamlSource::Position& at) const {
    const bool is_key = is_key_or_item() && levels_.back().is_map;
    return levels_.empty() || is_key || levels_.back().is_in_brackets ||
           at.column() > levels_.back().begin.column();
  }
  /// Returns the written form of a null, such as "~"; empty if the value is missing.
  [[nodiscard]] std::string_view null_word(const YamlSource::Position& mark) const {
    const auto at = source_.past_properties(mark);
    if (!is_inside(mark) || !is_inside(at)) return {};
    constexpr std::array<std::string_view, 4> kWords{"~", "null", "Null", "NULL"};
    for (const std::string_view word : kWords) {
      if (source_.rest(at).starts_with(word)) return word;
    }
    return {};
  }
  void add_null(const YamlSource::Position& at, std::string_view word, YAML::anchor_t anchor) {
    YamlNode node = node_at(YamlNode::Kind::kNull, at);
    node.text = word;
    node.is_plain = true;
    require(tree_.add(std::move(node), anchor, {}));
  }
  /// Adds an empty text for a tag without a value. At the end of the file, yaml-cpp loses the tag.
  void add_empty_tagged_text(const YAML::Mark& mark, std::string_view tag, YAML::anchor_t anchor) {
    constexpr std::string_view kYaml = "tag:yaml.org,2002:";
    const auto at = begin_node(mark);
    require(tree_.add(
        node_at(YamlNode::Kind::kScalar, at), anchor,
        tag.starts_with("!!") ? fmt::format("{}{}", kYaml, tag.substr(2)) : std::string(tag)));
  }
  /// Adds a null for a missing value. If the missing value is in brackets or has an anchor, the
  /// null gets the place of the mark. Otherwise it gets the place after the ':' or '-' that
  /// precedes the missing value.
  void add_null_for_missing(const YamlSource::Position& mark, YAML::anchor_t anchor) {
    auto at = mark;
    if (anchor == 0 && !levels_.empty() && !is_in_brackets()) {
      const Level& level = levels_.back();
      if (!level.is_map) {
        at = source_.past_dash_before(mark, level.begin.column()).value_or(mark);
      } else if (level.child_count % 2 == 1) {
        at = source_.past_key(level.key).value_or(mark);
      }
    }
    count_child(at);
    add_null(at, "", anchor);
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor, YAML::EmitterStyle::value style) {
    const bool is_list = kind == YamlNode::Kind::kSequence && style != YAML::EmitterStyle::Flow;
    const auto at = begin_node(mark, is_list);
    const bool brackets = style == YAML::EmitterStyle::Flow || is_in_brackets();
    require(tree_.open(node_at(kind, at), anchor, given_tag(tag, at)));
    // If the map's first key is on the line of the anchor or tag, as in "&a x: 1", the anchor or
    // tag belongs to that key, not to the map. In "k: &a" with the map on the next lines, it
    // belongs to the map.
    const auto content = source_.past_properties(at);
    const bool belongs_to_key = !brackets && content.line == at.line;
    levels_.push_back(
        {kind == YamlNode::Kind::kMap, brackets, belongs_to_key ? at : content, at, 0});
  }
  void close() {
    levels_.pop_back();
    tree_.close();
  }

  YamlSource& source_;
  MeteredText& text_;
  YamlTree& tree_;
  std::vector<Level> levels_;
  int document_count_ = 0;
};

/// A message of yaml-cpp, and the message that replaces it.
struct Wording {
  std::string_view original, replacement;
};

/// Messages that need only the place of the error. A message of yaml-cpp may continue with a part
/// of the text.
const std::array kWordings{
    Wording{YAML::ErrorMsg::MAP_VALUE,
            "a ':' is not allowed here; a key and its value stand on one line as 'key: value', and "
            "a text that holds ': ' stands in quotes"},
    Wording{YAML::ErrorMsg::MAP_KEY, "a key that starts with '? ' is not allowed here"},
    Wording{YAML::ErrorMsg::BLOCK_ENTRY,
            "a list item that starts with '-' is not allowed here; items stand on lines of their "
            "own, below their key, or in brackets as [a, b]"},
    Wording{YAML::ErrorMsg::FLOW_END,
            "this bracket closes nothing that is open; check the brackets before it, and put a "
            "text that holds brackets in quotes"},
    Wording{YAML::ErrorMsg::DOC_IN_SCALAR,
            "'---' or '...' at the start of a line ends the document inside a text in quotes; "
            "close the quotes before it, or indent the line"},
    Wording{YAML::ErrorMsg::CHAR_IN_BLOCK,
            "expected the end of the line after '|' or '>'; the text starts on the next line"},
    Wording{YAML::ErrorMsg::ZERO_INDENT_IN_BLOCK,
            "the indentation after '|' or '>' is a digit from 1 to 9"},
    Wording{YAML::ErrorMsg::INVALID_ESCAPE,
            "unknown escape in a text in double quotes; write \\\\ for a backslash, or use single "
            "quotes, in which nothing is an escape"},
    Wording{YAML::ErrorMsg::INVALID_HEX,
            "expected hexadecimal digits: two after \\x, four after \\u, eight after \\U"},
    Wording{YAML::ErrorMsg::INVALID_UNICODE, "this escape stands for no character of Unicode"},
    Wording{YAML::ErrorMsg::ALIAS_NOT_FOUND,
            "expected the name of an anchor after '*'; put a text that starts with '*' in quotes"},
    Wording{
        YAML::ErrorMsg::CHAR_IN_ALIAS,
        "expected a space after the name of an alias; put a text that starts with '*' in quotes"},
    Wording{YAML::ErrorMsg::ANCHOR_NOT_FOUND,
            "expected a name after '&'; put a text that starts with '&' in quotes"},
    Wording{YAML::ErrorMsg::CHAR_IN_ANCHOR,
            "expected a space after the name of an anchor; put a text that starts with '&' in "
            "quotes"},
    Wording{YAML::ErrorMsg::MULTIPLE_ANCHORS,
            "a value has one anchor at most, and this is another"},
    Wording{YAML::ErrorMsg::MULTIPLE_TAGS, "a value has one tag at most, and this is another"},
    Wording{YAML::ErrorMsg::CHAR_IN_TAG_HANDLE,
            "expected a tag after '!'; put a text that starts with '!' in quotes"},
    Wording{YAML::ErrorMsg::TAG_WITH_NO_SUFFIX,
            "expected a tag after '!'; put a text that starts with '!' in quotes"},
    Wording{YAML::ErrorMsg::END_OF_VERBATIM_TAG, "expected '>' at the end of the tag"},
    Wording{YAML::ErrorMsg::YAML_DIRECTIVE_ARGS, "expected '%YAML 1.2'"},
    Wording{YAML::ErrorMsg::YAML_VERSION, "expected '%YAML 1.2'"},
    Wording{YAML::ErrorMsg::YAML_MAJOR_VERSION, "expected '%YAML 1.2'"},
    Wording{YAML::ErrorMsg::REPEATED_YAML_DIRECTIVE, "a second %YAML directive; one is enough"},
    Wording{YAML::ErrorMsg::TAG_DIRECTIVE_ARGS, "expected '%TAG HANDLE PREFIX'"},
    Wording{YAML::ErrorMsg::REPEATED_TAG_DIRECTIVE, "a second %TAG directive for the same handle"},
};

/// Returns the problem of a list or a map that is not closed or not continued correctly; nullopt
/// for any other error.
std::optional<YamlProblem> EventReader::problem_of_collection(const std::string& message,
                                                              const YamlPlace& where) const {
  const auto is = [&](std::string_view original) { return message == original; };
  const int opening_line = levels_.empty() ? 0 : levels_.back().begin.line + 1;
  const std::size_t opening_column = levels_.empty() ? 0 : levels_.back().begin.column() + 1;
  if (is(YAML::ErrorMsg::END_OF_SEQ_FLOW)) {
    return yaml_problem(where, fmt::format("expected ',' or ']' in the list that '[' opens at line "
                                           "{}; put a text with special characters in quotes",
                                           opening_line));
  }
  if (is(YAML::ErrorMsg::END_OF_MAP_FLOW)) {
    return yaml_problem(where,
                        fmt::format("expected 'key: value', ',' or '}}' in the map that '{{' opens "
                                    "at line {}; put a text with special characters in quotes",
                                    opening_line));
  }
  if (is(YAML::ErrorMsg::END_OF_MAP)) {
    return yaml_problem(
        where,
        fmt::format("expected a key of the map that starts at line {}, column {}; "
                    "check the indentation, and put a text with special characters in quotes",
                    opening_line, opening_column));
  }
  if (is(YAML::ErrorMsg::END_OF_SEQ)) {
    return yaml_problem(where,
                        fmt::format("expected an item '- ...' of the list that starts at line {}, "
                                    "column {}; check the indentation, and put a text with special "
                                    "characters in quotes",
                                    opening_line, opening_column));
  }
  return std::nullopt;
}

std::optional<YamlProblem> EventReader::problem_of_indentation(const YamlSource::Position& at) {
  const auto spaces = [](const YamlSource::Position& word) {
    return fmt::format("{} space{}", word.column(), word.column() == 1 ? "" : "s");
  };
  if (levels_.empty() || is_in_brackets() || at.offset != source_.first_word(at).offset ||
      !source_.past_key(at))
    return std::nullopt;
  const Level& level = levels_.back();
  // Among the keys above that are indented further than this key: the least indented one. This key
  // may belong to the same map.
  std::optional<YamlSource::Position> nearest_key;
  for (auto above = source_.first_word_before(at); above && above->line >= level.begin.line;
       above = source_.first_word_before(*above)) {
    const bool is_nearer =
        above->column() > at.column() && (!nearest_key || above->column() <= nearest_key->column());
    if (is_nearer && source_.past_key(*above)) nearest_key = above;
  }
  if (!nearest_key) return std::nullopt;
  std::string message = fmt::format("this line is indented by {}; expected {}, as in line {}",
                                    spaces(at), spaces(*nearest_key), nearest_key->line + 1);
  if (level.is_map && level.begin.column() < at.column())
    message += fmt::format(", or {}, as in line {}", spaces(level.begin), level.begin.line + 1);
  return yaml_problem(source_.place(at), std::move(message));
}

std::optional<YamlProblem> EventReader::problem_of_line_before(const YamlSource::Position& at) {
  const auto word = source_.first_word(at);
  const auto value = source_.past_key(word);
  const bool is_first_key = value && (at.offset == word.offset || at.offset + 1 == value->offset);
  const auto before = source_.first_word_before(at);
  if (!is_first_key || !before) return std::nullopt;
  if (const auto value_before = source_.past_key(*before)) {
    const std::string_view text = trim(source_.rest_of_line(*value_before));
    const bool has_value = !text.empty() && !text.starts_with('#');
    if (!has_value || word.column() <= before->column()) return std::nullopt;
    return yaml_problem(
        source_.place(word),
        fmt::format("this line is indented further than line {}; the keys of a map start in the "
                    "same column, and a text that holds ': ' stands in quotes",
                    before->line + 1));
  }
  auto problem = problem_of_missing_space(*before);
  // A user who omits a space often omits it in several lines; the first of these lines is reported.
  for (auto above = source_.first_word_before(*before);
       problem && above && above->column() == before->column();
       above = source_.first_word_before(*above)) {
    auto earlier = problem_of_missing_space(*above);
    if (!earlier) break;
    problem = std::move(earlier);
  }
  return problem;
}

YamlProblem EventReader::problem_of(const YAML::Exception& error) {
  const auto at = source_.position_of_mark(error.mark.pos, error.mark.line, error.mark.column);
  const auto where = source_.place(at);
  const auto is = [&](std::string_view message) { return error.msg == message; };
  if (dynamic_cast<const YAML::DeepRecursion*>(&error) != nullptr) return tree_.too_deep(where);
  if (is(YAML::ErrorMsg::UNKNOWN_ANCHOR)) {
    const std::string name = alias_name(at);
    if (name.ends_with(':')) {
      return problem_that_shows_text(
          where, fmt::format("alias '*{}' has no anchor '&{}' before it; an alias that is a key "
                             "needs a space before its ':'",
                             name, name));
    }
    return tree_.add_alias(0, name, where).error();
  }
  const bool is_about_indentation = [&] {
    const std::array kMessages{YAML::ErrorMsg::MAP_VALUE,   YAML::ErrorMsg::MAP_KEY,
                               YAML::ErrorMsg::BLOCK_ENTRY, YAML::ErrorMsg::END_OF_MAP,
                               YAML::ErrorMsg::END_OF_SEQ,  YAML::ErrorMsg::TAB_IN_INDENTATION};
    return std::any_of(kMessages.begin(), kMessages.end(), is);
  }();
  if (const auto tab = source_.tab_before({at.offset + 1, at.line_start, at.line});
      tab && is_about_indentation)
    return yaml_problem(source_.place(*tab), kTabIndents);
  if (is(YAML::ErrorMsg::MAP_VALUE) || is(YAML::ErrorMsg::END_OF_MAP)) {
    if (auto problem = problem_of_line_before(at)) return *problem;
  }
  if (is(YAML::ErrorMsg::END_OF_MAP) || is(YAML::ErrorMsg::END_OF_SEQ)) {
    if (auto problem = problem_of_indentation(at)) return *problem;
  }
  if (auto problem = problem_of_collection(error.msg, where)) return *problem;
  if (is(YAML::ErrorMsg::EOF_IN_SCALAR)) {
    return yaml_problem(where,
                        fmt::format("the file ends inside a text in quotes, which opens at or "
                                    "after line {}; close it with the same quote",
                                    text_.place_of_last_event().line));
  }
  if (is(YAML::ErrorMsg::UNKNOWN_TOKEN)) {
    const std::string_view rest = source_.rest(at);
    const char first = rest.empty() ? ' ' : rest.front();
    const bool is_visible = first > ' ' && first < '\x7f';
    return yaml_problem(where, is_visible
                                   ? fmt::format("a text cannot start with '{}'; put it in "
                                                 "quotes",
                                                 first)
                                   : "a text cannot start with this character; put it in quotes");
  }
  for (const Wording& wording : kWordings) {
    if (error.msg.starts_with(wording.original))
      return yaml_problem(where, std::string(wording.replacement));
  }
  return problem_that_shows_text(where, error.msg);
}

}  // namespace

std::string_view key_lacking_space(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto end = std::find_if_not(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  const auto key = static_cast<std::size_t>(end - text.begin());
  if (text.empty() || !is_letter(text[0]) || key + 1 >= text.size() || text[key] != ':') return {};
  constexpr std::string_view kNoValue = " \t\n:";
  const std::string_view value = text.substr(key + 1);
  if (kNoValue.find(value[0]) != std::string_view::npos || value.starts_with("//")) return {};
  return text.substr(0, key + 1);
}

tl::expected<YamlDocument, YamlProblem> parse_yaml(std::string_view text,
                                                   const YamlLimits& limits) {
  if (text.size() > limits.bytes) {
    return tl::unexpected(
        YamlProblem{0, 0, fmt::format("{} bytes, but the limit is {}", text.size(), limits.bytes)});
  }
  DLRUN_TRY_ASSIGN(auto source, YamlSource::prepare(text));
  MeteredText metered(source.text(), 2 * limits.nodes);
  YamlTree tree(limits, text.size());
  EventReader reader(source, metered, tree);
  try {
    std::istream stream(&metered);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(reader)) {
      require(source.check_directives(source.end()));
      return YamlDocument{{YamlNode{}}, 0};
    }
    // EventReader refuses a second document. yaml-cpp also reads any text after "[a]" as a second
    // document. If text is left, but no second document, the text is a directive.
    if (parser && !parser.HandleNextDocument(reader)) {
      return tl::unexpected(
          yaml_problem(source.place(source.last_directive().value_or(source.end())),
                       "a line that starts with '%' is a directive, which stands before the "
                       "document; put a text that starts with '%' in quotes"));
    }
  } catch (const Refusal& refusal) {
    return tl::unexpected(refusal.problem);
  } catch (const YAML::Exception& error) {
    return tl::unexpected(reader.problem_of(error));
  } catch (const std::exception& error) {
    return tl::unexpected(YamlProblem{0, 0, fmt::format("cannot be read: {}", error.what())});
  }
  return std::move(tree).take();
}

}  // namespace dlrun
