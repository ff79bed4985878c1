#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "launcher/spec/yaml_document.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

using Kind = YamlNode::Kind;

constexpr std::size_t kMiB = 1U << 20U;

YamlDocument parsed(std::string_view text) {
  auto document = parse_yaml(text);
  if (!document) FAIL(document.error().message);
  return std::move(*document);
}

/// Returns the message of the error; empty if the text is accepted.
std::string refusal(std::string_view text, const YamlLimits& limits = {}) {
  const auto document = parse_yaml(text, limits);
  return document ? "" : document.error().message;
}

/// Appends a node and all nodes below it, depth first, each as "line:column kind text".
void append_nodes(const YamlDocument& document, YamlId id, std::vector<std::string>& nodes) {
  const YamlNode& node = document.at(id);
  constexpr std::array<std::string_view, 4> kKinds{"null", "scalar", "list", "map"};
  nodes.push_back(fmt::format("{}:{} {} {}", node.line, node.column,
                              kKinds[static_cast<std::size_t>(node.kind)], node.text));
  for (const YamlId item : node.items) append_nodes(document, item, nodes);
}

std::vector<std::string> described(std::string_view text) {
  const auto document = parsed(text);
  std::vector<std::string> nodes;
  for (const YamlId item : document.at(document.root).items) append_nodes(document, item, nodes);
  return nodes;
}

/// Returns the text of the only value of a map.
std::string value_of(const std::string& text) {
  const auto document = parsed(text);
  const auto& items = document.at(document.root).items;
  REQUIRE(items.size() == 2);
  return document.at(items[1]).text;
}

struct RefusedText {
  const char* text;
  int line, column;
  const char* words;  ///< a part of the message
};

void check_refused(const std::vector<RefusedText>& texts) {
  for (const RefusedText& one : texts) {
    CAPTURE(std::string(one.text));
    const auto document = parse_yaml(one.text);
    CHECK_FALSE(document.has_value());
    if (document) continue;
    CHECK(document.error().line == one.line);
    CHECK(document.error().column == one.column);
    CAPTURE(document.error().message);
    CHECK(document.error().message.find(one.words) != std::string::npos);
  }
}

TEST_CASE("a YAML document becomes a tree with positions") {
  const auto document = parsed("a: [1, 'two']\nb:\n  c: ~\n");
  const YamlNode& root = document.at(document.root);
  REQUIRE(root.kind == Kind::kMap);
  REQUIRE(root.items.size() == 4);
  const YamlNode& list = document.at(root.items[1]);
  CHECK(list.kind == Kind::kSequence);
  CHECK(list.line == 1);
  CHECK(list.column == 4);
  CHECK(document.at(list.items[0]).is_plain);
  CHECK_FALSE(document.at(list.items[1]).is_plain);
  CHECK(document.at(list.items[1]).text == "two");
  const YamlNode& inner = document.at(root.items[3]);
  CHECK(document.at(inner.items[1]).kind == Kind::kNull);
  CHECK(document.at(inner.items[0]).line == 3);
}

TEST_CASE("an empty text and a text of comments are null, not an error") {
  CHECK(parsed("").at(0).kind == Kind::kNull);
  CHECK(parsed("# only this\n").at(0).kind == Kind::kNull);
}

TEST_CASE("a byte order mark before the document is ignored") {
  const auto document = parsed("\xEF\xBB\xBFname: x\n");
  REQUIRE(document.at(document.root).items.size() == 2);
  CHECK(document.at(document.at(document.root).items[0]).text == "name");
}

TEST_CASE("an alias has the value of the nearest earlier anchor with the same name") {
  const auto document = parsed("- &a x\n- &b [*a, *a]\n- &a y\n- *a\n- *b\n");
  const YamlNode& root = document.at(document.root);
  CHECK(document.at(root.items[3]).text == "y");
  CHECK(document.at(document.at(root.items[4]).items[1]).text == "x");
}

TEST_CASE("a null in quotes or with the tag !!str is text") {
  const auto document = parsed("['', \"null\", !!str null, null]");
  const YamlNode& root = document.at(document.root);
  for (std::size_t i = 0; i < 3; ++i) CHECK(document.at(root.items[i]).kind == Kind::kScalar);
  CHECK(document.at(root.items[3]).kind == Kind::kNull);
}

TEST_CASE(
    "text from quoted_yaml() or yaml_text() is read back unchanged, even with line breaks that "
    "only YAML has") {
  for (const char* text :
       {"a \xC2\x85 b", "\xE2\x80\xA8 a", "a \xE2\x80\xA9", "\xE2\x80\xA8\xE2\x80\xA8",
        "\xC2\xA0 \xEF\xBB\xBF", " a\n  b\t\n", "\"\\'", "null", "#", "a: b"}) {
    for (const auto& written : {quoted_yaml(text), yaml_text(text)}) {
      CAPTURE(written);
      const auto document = parsed("key: " + written + "\n");
      CHECK(document.at(document.at(document.root).items[1]).text == text);
    }
  }
}

TEST_CASE("cycles, unknown anchors, unknown tags and second documents are refused") {
  CHECK(refusal("a: &x {b: *x}").find("endless cycle") != std::string::npos);
  CHECK(refusal("&x [*x]").find("endless cycle") != std::string::npos);
  CHECK(refusal("[*x]").find("has no anchor") != std::string::npos);
  CHECK(refusal("!!python/object x").find("tag") != std::string::npos);
  CHECK(refusal("a\n---\nb").find("second YAML document") != std::string::npos);
}

TEST_CASE("64 levels are read and the 65th is refused") {
  const auto lists = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  CHECK(refusal(lists(64)).empty());
  CHECK(refusal(lists(65)).find("64 levels") != std::string::npos);
}

TEST_CASE("the limit on levels includes the levels inside aliases") {
  std::string text = "- &a0 [x]\n";
  for (int i = 1; i <= 62; ++i)
    text += "- &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  CHECK(refusal(text).empty());
  CHECK(refusal(text + "- [*a62]\n").find("64 levels") != std::string::npos);
}

TEST_CASE("the limit on nodes is exact, and an alias counts as all nodes of its anchor") {
  CHECK(refusal("[a, b, c]", {.bytes = 100, .levels = 9, .nodes = 4}).empty());
  CHECK(refusal("[a, b, c, d]", {.bytes = 100, .levels = 9, .nodes = 4}).find("4 nodes") !=
        std::string::npos);
  CHECK(refusal("[&a [x, y], *a]", {.bytes = 100, .levels = 9, .nodes = 7}).empty());
  CHECK(refusal("[&a [x, y], *a]", {.bytes = 100, .levels = 9, .nodes = 6}).find("6 nodes") !=
        std::string::npos);
}

TEST_CASE("the limit on anchors is exact and counts different names") {
  const YamlLimits two_anchors{.bytes = 100, .levels = 9, .nodes = 9, .anchors = 2};
  CHECK(refusal("[&a x, &b y, &a z]", two_anchors).empty());
  CHECK(refusal("[&a x, &b y, &c []]", two_anchors).find("more than 2 anchors") !=
        std::string::npos);
}

TEST_CASE("a text of 1 MiB is read, and one byte more is refused") {
  const std::string text = "a: " + std::string(kMiB - 3, 'x');
  CHECK(refusal(text).empty());
  CHECK(refusal(text + "x").find("the limit is 1048576") != std::string::npos);
}

TEST_CASE("control characters in the text are refused with their line and column") {
  const auto document = parse_yaml("a: 1\nb: \x01\n");
  REQUIRE_FALSE(document.has_value());
  CHECK(document.error().line == 2);
  CHECK(document.error().column == 4);
}

using Nodes = std::vector<std::string>;

TEST_CASE("columns count characters, not bytes") {
  CHECK(described("\u00e9\u00fc: {\U0001F600: x}\n") ==
        Nodes{"1:1 scalar \u00e9\u00fc", "1:5 map ", "1:6 scalar \U0001F600", "1:9 scalar x"});
  // The reader counts multi-byte characters in blocks of 256 bytes. This line exceeds a block.
  const std::string dots(300, '.');
  CHECK(described("[\"\u00e9" + dots + "\u00e9\", x]")[1] == "1:308 scalar x");
}

TEST_CASE("the position of a missing value is after its ':' or '-'") {
  CHECK(described("a:   # nothing\n\nb: 1\n") ==
        Nodes{"1:1 scalar a", "1:3 null ", "3:1 scalar b", "3:4 scalar 1"});
  CHECK(described("'it''s: ' :\nb: &x\n") ==
        Nodes{"1:1 scalar it's: ", "1:12 null ", "2:1 scalar b", "2:4 null "});
  CHECK(described("-\n# nothing\n- a\n-") == Nodes{"1:2 null ", "3:3 scalar a", "4:2 null "});
  CHECK(described("{a: , b}") == Nodes{"1:2 scalar a", "1:5 null ", "1:7 scalar b", "1:8 null "});
}

TEST_CASE("an explicit null is distinguished from a missing value before a key named null") {
  CHECK(described("a:\n  null\nb: ~\n") ==
        Nodes{"1:1 scalar a", "2:3 null null", "3:1 scalar b", "3:4 null ~"});
  CHECK(described("a:\nnull: 1\n") ==
        Nodes{"1:1 scalar a", "1:3 null ", "2:1 null null", "2:7 scalar 1"});
  CHECK(described("a: &x\nnull: 1\n")[1] == "1:4 null ");
  CHECK(described("- a:\n  null: 1\n")[2] == "1:5 null ");
}

TEST_CASE(
    "a tag before a key belongs to the key, not to a missing value before it, and `!!str` alone is "
    "an empty text") {
  CHECK(described("!!str a: 1\nb:\n  null\n") ==
        Nodes{"1:1 scalar a", "1:10 scalar 1", "2:1 scalar b", "3:3 null null"});
  CHECK(described("a:\n!!str b: c\n")[1] == "1:3 null ");
  CHECK(described("a: &x\n!!str b: c\n")[1] == "1:4 null ");
  CHECK(described("a: !!str\n") == Nodes{"1:1 scalar a", "1:4 scalar "});
  CHECK(refusal("a: !foo\n").find("tag '!foo'") != std::string::npos);
}

TEST_CASE("every escape stands for its character") {
  CHECK(value_of(R"(a: "\0\a\b\t\n\v\f\r\e\ \"\/\\")") ==
        std::string("\0\a\b\t\n\v\f\r\x1b \"/\\", 13));
  CHECK(value_of(R"(a: "\N\_\L\P\x41\u00e9\U0001F600")") ==
        "\u0085\u00a0\u2028\u2029A\u00e9\U0001F600");
}

TEST_CASE("the line breaks at the end of a quoted text are kept, except the first") {
  CHECK(value_of("a: \"x\n\n\n\n\"") == "x\n\n\n");
  CHECK(value_of("a: 'it''s\n\n\n\n'") == "it's\n\n\n");
  CHECK(value_of("a: \"\n\n\n\"") == "\n\n");
  CHECK(value_of("a: \"x\\n\n\n\n\n\n\"") == "x\n\n\n\n\n");
  CHECK(value_of("a: \"x\n\"") == "x ");
}

TEST_CASE("a block at the end of a file does not get a line break that the file does not have") {
  CHECK(value_of("a: |\n  x\n  ") == "x\n");
  CHECK(value_of("a: >\n  x\n  ") == "x\n");
  CHECK(value_of("a: |\n  x") == "x");
  CHECK(value_of("a: |\n  x\n    \n    ") == "x\n  \n  ");
}

TEST_CASE("a '?' inside a text is text, even in brackets") {
  CHECK(described("[http://h/?q=1, a ? b, 'c?', really?]") ==
        Nodes{"1:2 scalar http://h/?q=1", "1:17 scalar a ? b", "1:24 scalar c?",
              "1:30 scalar really?"});
  CHECK(value_of("? a\n: b?\n") == "b?");
}

TEST_CASE("lines end with \\n, \\r\\n, \\r or U+0085") {
  const Nodes expected{"1:1 scalar a", "1:4 scalar x\ny\n", "4:1 scalar b", "4:4 scalar z"};
  for (const char* end : {"\n", "\r\n", "\r", "\u0085"}) {
    CAPTURE(std::string(end));
    const std::string text = fmt::format("a: |{0}  x{0}  y{0}b: z{0}", end);
    CHECK(described(text) == expected);
  }
}

TEST_CASE("the error for a key that is indented too far has the line of the key before it") {
  const char* further = "this line is indented further than line 2; the keys of a map start in";
  check_refused({
      {"r:\n  a: 2\n   b: 5m\n", 3, 4, further},
      {"r:\n  a: 2 # c\n   b: 5m\n", 3, 4, further},
      {"r:\n  a: \"2\"\n\n   # c\n   b: 5m\n", 5, 4, further},
      {"r:\n  - a: 2\n     b: 5m\n", 3, 6, further},
      {"r:\n  a: 2\n  b: c: d\n", 3, 7, "a ':' is not allowed here"},
  });
}

TEST_CASE("the error for a missing space after a key has the key and its line") {
  const char* missing = "a space is missing after 'name:'";
  check_refused({
      {"name:k\nr:\n  a: 1\n", 1, 6, missing},
      {"name:k\nsite:x\nr:\n  a: 1\n", 1, 6, missing},
      {"r:\n  name:k\n  a: 1\n", 2, 8, missing},
      {"r: 1\nname:k\ns: 2\n", 2, 6, missing},
      {"r: 1\nname:k\n", 2, 6, missing},
  });
  CHECK(key_lacking_space("time:5m") == "time:");
  for (const char* other : {"time: 5m", "time:", "time", ":5m", "http://x", "12:30", "a::b", ""}) {
    INFO(other);
    CHECK(key_lacking_space(other).empty());
  }
}

TEST_CASE(
    "text that yaml-cpp accepts although it is not YAML is refused with its line and column") {
  check_refused({
      {"[a,,b]", 1, 4, "expected a value before ','"},
      {"{a: 1,,b: 2}", 1, 7, "expected a value before ','"},
      {": x", 1, 1, "expected a key before ':'"},
      {"a:\n\tb\n", 2, 1, "a tab cannot indent"},
      {"- \tb\n", 1, 3, "a tab cannot indent"},
      {"a:\nb\n", 2, 1, "expected ': ' after this key"},
      {"a: 1\nb: 2\nc\n", 3, 1, "expected ': ' after this key"},
      {"a:\n|\n  x\n", 2, 1, "indented more than its key"},
      {"a: 'x\n", 1, 4, "no closing quote"},
      {R"(a: "\'")", 1, 4, "is no escape"},
      {"a: !\"x\"", 1, 4, "is not supported"},
      {"!<> x", 1, 1, "is not supported"},
      {"&a.b x", 1, 1, "anchor '&a.b' holds"},
      {"[a] b", 1, 5, "the document has ended"},
      {"\"a\" b", 1, 5, "the document has ended"},
      {"a: b\n%TAG ! !\n", 2, 1, "before the document"},
      {"%foo\n---\na: b\n", 1, 1, "unknown directive"},
      {"%YAML 1.3\n---\na: b\n", 1, 1, "unknown directive"},
      {"%YAML 1.2\na: b\n", 2, 1, "expected '---'"},
      {"%YAML 1.2\n", 2, 1, "expected '---'"},
      {"a: \xff\n", 1, 4, "not UTF-8"},
      {"\u00e9: \xc3\n", 1, 4, "not UTF-8"},
      {"a: \u009f\n", 1, 4, "YAML does not allow this character"},
  });
}

TEST_CASE(
    "a syntax error in YAML is reported with its position, what was expected and what to do") {
  check_refused({
      {"a: b: c", 1, 5, "'key: value'"},
      {"a: - b", 1, 4, "below their key"},
      {"a:\n  b: 1\n\tc: 2\n", 3, 1, "a tab cannot indent"},
      {"[a, b", 1, 6, "expected ',' or ']' in the list that '[' opens at line 1"},
      {"a:\n  {b: c", 2, 8, "',' or '}' in the map that '{' opens at line 2"},
      {"a:\n  b: 1\n c: 2\n", 3, 2,
       "indented by 1 space; expected 2 spaces, as in line 2, or 0 spaces, as in line 1"},
      {"a:\n  b:\n    c: 1\n\n # x\n   d: 2\n", 6, 4,
       "indented by 3 spaces; expected 4 spaces, as in line 3, or 2 spaces, as in line 2"},
      {"a:\n  b:\n    c: 1\n d: 2\n", 4, 2,
       "indented by 1 space; expected 2 spaces, as in line 2, or 0 spaces, as in line 1"},
      {"a:\n  - b: 1\n   c: 2\n", 3, 4, "by 3 spaces; expected 4 spaces, as in line 2"},
      {"a: 1\nb: \"x\" y\n", 2, 8, "the map that starts at line 1, column 1"},
      {"- a:\n - b\n", 2, 2, "the list that starts at line 1, column 1"},
      {"[a}", 1, 3, "closes nothing"},
      {"a: ]", 1, 4, "closes nothing"},
      {"a: @x", 1, 4, "cannot start with '@'"},
      {"a: \"x\n", 1, 4, "closing quote"},
      {"a: \"x", 1, 6, "opens at or after line 1"},
      {"a: \"x\n---\n\"", 2, 1, "inside a text in quotes"},
      {R"(a: "\q")", 1, 7, "unknown escape"},
      {R"(a: "\xgg")", 1, 9, "hexadecimal digits"},
      {R"(a: "\ud800")", 1, 11, "no character of Unicode"},
      {"a: | x", 1, 6, "the text starts on the next line"},
      {"a: |0\n  x", 1, 6, "a digit from 1 to 9"},
      {"a: *", 1, 5, "put a text that starts with '*' in quotes"},
      {"- &a x\n- *a: y", 2, 3, "a space before its ':'"},
      {"a: &", 1, 5, "put a text that starts with '&' in quotes"},
      {"a: &x &y z", 1, 7, "one anchor at most"},
      {"a: !!str !!str z", 1, 10, "one tag at most"},
      {"a: !b!", 1, 7, "put a text that starts with '!' in quotes"},
      {"a: !<b", 1, 7, "expected '>'"},
      {"%YAML 1.2\n%YAML 1.2\n---\na", 2, 1, "a second %YAML directive"},
      {"%TAG !\n---\na", 1, 1, "expected '%TAG HANDLE PREFIX'"},
  });
}

}  // namespace
}  // namespace dlrun
