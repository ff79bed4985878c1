#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <functional>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "launcher/spec/load.h"
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

std::string refusal(std::string_view text, const YamlLimits& limits = {}) {
  const auto document = parse_yaml(text, limits);
  return document ? "" : document.error().message;
}

std::string repeated(std::string_view part, std::size_t bytes) {
  std::string text;
  while (text.size() + part.size() <= bytes) text += part;
  return text;
}

/// Ten levels of ten aliases each: 10^10 nodes in 400 bytes.
std::string alias_bomb() {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int level = 1; level < 10; ++level) {
    text += "a" + std::to_string(level) + ": &a" + std::to_string(level) + " [";
    for (int i = 0; i < 10; ++i) text += (i > 0 ? ", *a" : "*a") + std::to_string(level - 1);
    text += "]\n";
  }
  return text;
}

struct Hostile {
  const char* what;
  std::function<std::string()>
      text;  ///< made when its turn comes, so that the memory measured is its own
};

std::string numbered(std::string_view before, std::string_view after) {
  std::string text;
  for (int i = 0; text.size() < kMiB - 20; ++i) text += fmt::format("{}{}{}", before, i, after);
  return text;
}

std::string deep_block() {
  std::string text;
  for (std::size_t i = 0; i < 1400; ++i) text += "\n" + std::string(i, ' ') + "a:";
  return text;
}

/// Every kind of input that is large in some way, all but one within 1 MiB.
const std::vector<Hostile>& hostile_documents() {
  static const std::vector<Hostile> documents{
      {"10 MiB", [] { return std::string(10 * kMiB, 'x'); }},
      {"alias bomb", alias_bomb},
      {"open lists", [] { return std::string(kMiB, '['); }},
      {"open maps", [] { return std::string(kMiB, '{'); }},
      {"open keys", [] { return repeated("? ", kMiB); }},
      {"open items", [] { return repeated("- ", kMiB); }},
      {"lists in keys", [] { return repeated("[? ", kMiB); }},
      {"deep block", deep_block},
      {"flow list of scalars", [] { return "[" + repeated("a,", kMiB - 1); }},
      {"flow map of pairs", [] { return "{" + repeated("a: 1,", kMiB - 1); }},
      {"empty lists", [] { return "[" + repeated("[],", kMiB - 1); }},
      {"list of lines", [] { return repeated("- a\n", kMiB); }},
      {"many keys", [] { return numbered("k", ": 1\n"); }},
      {"many anchors", [] { return numbered("- &a", " x\n") + "- *a0\n"; }},
      {"many aliases", [] { return "- &a x\n" + repeated("- *a\n", kMiB - 7); }},
      {"many documents", [] { return repeated("---\n", kMiB); }},
      {"colons", [] { return std::string(kMiB, ':'); }},
      {"anchors of nothing", [] { return repeated("&a ", kMiB); }},
      {"NULs", [] { return std::string(kMiB, '\0'); }},
      {"not UTF-8", [] { return std::string(kMiB, '\xff'); }},
      {"a quote without end", [] { return "a: \"" + std::string(kMiB - 5, 'x'); }},
      {"directives", [] { return repeated("%TAG ! !\n", kMiB); }},
  };
  return documents;
}

double cpu_ms(const std::function<void()>& work) {
  timespec begin{}, end{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  work();
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  return static_cast<double>(end.tv_sec - begin.tv_sec) * 1e3 +
         static_cast<double>(end.tv_nsec - begin.tv_nsec) / 1e6;
}

TEST_CASE("a document becomes a tree with positions") {
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

TEST_CASE("an empty text and comments alone are nothing, not an error") {
  CHECK(parsed("").at(0).kind == Kind::kNull);
  CHECK(parsed("# only this\n").at(0).kind == Kind::kNull);
}

TEST_CASE("a byte order mark before the document is passed over") {
  const auto document = parsed("\xEF\xBB\xBFname: x\n");
  REQUIRE(document.at(document.root).items.size() == 2);
  CHECK(document.at(document.at(document.root).items[0]).text == "name");
}

TEST_CASE("an alias is what its anchor was, and a redefined anchor the newer one") {
  const auto document = parsed("- &a x\n- &b [*a, *a]\n- &a y\n- *a\n- *b\n");
  const YamlNode& root = document.at(document.root);
  CHECK(document.at(root.items[3]).text == "y");
  CHECK(document.at(document.at(root.items[4]).items[1]).text == "x");
}

TEST_CASE("a quoted null is a text") {
  const auto document = parsed("['', \"null\", !!str null, null]");
  const YamlNode& root = document.at(document.root);
  for (std::size_t i = 0; i < 3; ++i) CHECK(document.at(root.items[i]).kind == Kind::kScalar);
  CHECK(document.at(root.items[3]).kind == Kind::kNull);
}

TEST_CASE(
    "a text that is written is read back to the byte, also around the line breaks that only YAML "
    "has") {
  for (const char* text :
       {"a \xC2\x85 b", "\xE2\x80\xA8 a", "a \xE2\x80\xA9", "\xE2\x80\xA8\xE2\x80\xA8",
        "\xC2\xA0 \xEF\xBB\xBF", " a\n  b\t\n", "\"\\'", "null", "#", "a: b"}) {
    for (const auto& written : {yaml_string(text), yaml_text(text)}) {
      CAPTURE(written);
      const auto document = parsed("key: " + written + "\n");
      CHECK(document.at(document.at(document.root).items[1]).text == text);
    }
  }
}

TEST_CASE("cycles, unknown anchors, tags and second documents are refused") {
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

TEST_CASE("levels count through aliases") {
  std::string text = "- &a0 [x]\n";
  for (int i = 1; i <= 62; ++i)
    text += "- &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  CHECK(refusal(text).empty());
  CHECK(refusal(text + "- [*a62]\n").find("64 levels") != std::string::npos);
}

TEST_CASE(
    "the last allowed node is read and the next refused, aliases counted as what they stand for") {
  CHECK(refusal("[a, b, c]", {.bytes = 100, .levels = 9, .nodes = 4}).empty());
  CHECK(refusal("[a, b, c, d]", {.bytes = 100, .levels = 9, .nodes = 4}).find("4 nodes") !=
        std::string::npos);
  CHECK(refusal("[&a [x, y], *a]", {.bytes = 100, .levels = 9, .nodes = 7}).empty());
  CHECK(refusal("[&a [x, y], *a]", {.bytes = 100, .levels = 9, .nodes = 6}).find("6 nodes") !=
        std::string::npos);
}

TEST_CASE("as many anchors as allowed are read and one more is refused") {
  const YamlLimits two{.bytes = 100, .levels = 9, .nodes = 9, .anchors = 2};
  CHECK(refusal("[&a x, &b y, &a z]", two).empty());
  CHECK(refusal("[&a x, &b y, &c []]", two).find("more than 2 anchors") != std::string::npos);
}

TEST_CASE("1 MiB is read and a byte more refused") {
  const std::string text = "a: " + std::string(kMiB - 3, 'x');
  CHECK(refusal(text).empty());
  CHECK(refusal(text + "x").find("at most 1048576") != std::string::npos);
}

TEST_CASE("every hostile document is refused within 50 ms and 64 MiB") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr double kLimit = 1000;  // a sanitizer's own cost
#else
  constexpr double kLimit = 50;
#endif
  for (const Hostile& hostile : hostile_documents()) {
    INFO(std::string(hostile.what));
    LoadRequest request;
    request.file = "exp.yaml";
    request.text = hostile.text();
    request.current_dir = "/";
    // The machine may be busy: the best of up to twenty, in time on the processor.
    constexpr int kMostTries = 20;
    double best = 1e9;
    bool is_refused = true;
    for (int i = 0; i < kMostTries && best >= kLimit; ++i)
      best = std::min(best, cpu_ms([&] { is_refused = is_refused && !load_spec(request); }));
    CHECK(is_refused);
    CHECK(best < kLimit);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(load_spec(request) ? 1 : 0);
    int status = 0;
    rusage usage{};
    REQUIRE(wait4(child, &status, 0, &usage) == child);
    CHECK(status == 0);
    CHECK(usage.ru_maxrss < 64 * 1024);
#endif
  }
}

TEST_CASE("control characters in the text are refused with their line") {
  const auto document = parse_yaml("a: 1\nb: \x01\n");
  REQUIRE_FALSE(document.has_value());
  CHECK(document.error().line == 2);
  CHECK(document.error().column == 4);
}

}  // namespace
}  // namespace dlrun
