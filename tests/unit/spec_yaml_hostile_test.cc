// Tests how much time and memory the YAML reader needs for texts that are large in many different
// ways.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "launcher/spec/load.h"
#include "launcher/spec/yaml_document.h"
#include "tests/time_bounds.h"

namespace dlrun {
namespace {

/// The size of a text in bytes. With a sanitizer the texts are shorter, because the reader is much
/// slower.
constexpr std::size_t kTextBytes = kWithSanitizer ? 1U << 16U : 1U << 20U;

/// Returns `begin`, followed by as many copies of `part` as fit into kTextBytes.
std::string filled(std::string_view begin, std::string_view part) {
  std::string text(begin);
  while (text.size() + part.size() <= kTextBytes) text += part;
  return text;
}

/// Returns `before`, a number and `after`, repeated with the numbers 0, 1, ... up to nearly
/// kTextBytes.
std::string numbered(std::string_view before, std::string_view after) {
  std::string text;
  for (int i = 0; text.size() < kTextBytes - 20; ++i)
    text += fmt::format("{}{}{}", before, i, after);
  return text;
}

/// Returns ten lists. Each item of a list is an alias of the list before it, so the last list has
/// 10^10 nodes.
std::string alias_bomb() {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int level = 1; level < 10; ++level) {
    text += "a" + std::to_string(level) + ": &a" + std::to_string(level) + " [";
    for (int i = 0; i < 10; ++i) text += (i > 0 ? ", *a" : "*a") + std::to_string(level - 1);
    text += "]\n";
  }
  return text;
}

std::string deep_block() {
  std::string text;
  for (std::size_t i = 0; i < 1400; ++i) text += "\n" + std::string(i, ' ') + "a:";
  return text;
}

struct HostileText {
  const char* name;
  /// Called just before the text is tested, so that no other text is in memory.
  std::function<std::string()> make_text;
  bool has_no_values = false;  ///< the reader accepts only texts without values
};

/// Returns texts that are large in different ways.
const std::vector<HostileText>& hostile_yaml_texts() {
  static const std::vector<HostileText> texts{
      {"10 MiB", [] { return std::string(10U << 20U, 'x'); }},
      {"alias bomb", alias_bomb},
      {"open lists", [] { return std::string(kTextBytes, '['); }},
      {"open lists of a key", [] { return filled("a: ", "["); }},
      {"open maps", [] { return std::string(kTextBytes, '{'); }},
      {"open keys", [] { return filled("", "? "); }},
      {"open items", [] { return filled("", "- "); }},
      {"lists in keys", [] { return filled("", "[? "); }},
      {"deep block", deep_block},
      {"flow list of scalars", [] { return filled("[", "a,"); }},
      {"flow list of words", [] { return filled("[", "aaaa,"); }},
      {"flow list in a list", [] { return filled("a: [[", "aaaaa,"); }},
      {"flow list of texts", [] { return filled("[", "'',"); }},
      {"flow list without commas", [] { return filled("[", "\"\""); }},
      {"flow list of question marks", [] { return filled("[", "? "); }},
      {"flow map of keys", [] { return filled("{", "a,"); }},
      {"flow map of pairs", [] { return filled("{", "a: 1,"); }},
      {"flow map of colons", [] { return filled("{", ": "); }},
      {"empty lists", [] { return filled("[", "[],"); }},
      {"empty maps without commas", [] { return filled("{", "{}"); }},
      {"list of lines", [] { return filled("", "- a\n"); }},
      {"list of nothing", [] { return filled("", "-\n"); }},
      {"list of nulls on one line", [] { return filled("[", "~,"); }},
      {"many keys", [] { return numbered("k", ": 1\n"); }},
      {"many keys without values", [] { return numbered("k", ":\n"); }},
      {"many keys in quotes", [] { return numbered("\"k", "\" : 'v'\n"); }},
      {"maps in a list", [] { return filled("", "- a:\n  - b:\n"); }},
      {"many anchors", [] { return numbered("- &a", " x\n") + "- *a0\n"; }},
      {"many aliases", [] { return filled("- &a x\n", "- *a\n"); }},
      {"many documents", [] { return filled("", "---\n"); }},
      {"many ends of documents", [] { return filled("", "...\n"); }, true},
      {"colons", [] { return std::string(kTextBytes, ':'); }},
      {"dashes", [] { return std::string(kTextBytes, '-'); }},
      {"question marks", [] { return std::string(kTextBytes, '?'); }},
      {"exclamation marks", [] { return filled("", "! "); }},
      {"anchors of nothing", [] { return filled("", "&a "); }},
      {"anchors of nothing in a list", [] { return filled("[", "&a "); }},
      {"NULs", [] { return std::string(kTextBytes, '\0'); }},
      {"not UTF-8", [] { return std::string(kTextBytes, '\xff'); }},
      {"line breaks", [] { return std::string(kTextBytes, '\n'); }, true},
      {"carriage returns", [] { return std::string(kTextBytes, '\r'); }, true},
      {"tabs", [] { return std::string(kTextBytes, '\t'); }, true},
      {"spaces before a list", [] { return std::string(kTextBytes / 2, ' ') + filled("[", "~,"); }},
      {"comments", [] { return filled("", "# a\n"); }, true},
      {"a plain text", [] { return std::string(kTextBytes, 'x'); }},
      {"a plain text of many lines", [] { return filled("", "a\n"); }},
      {"a plain text in a list", [] { return filled("[", "a b "); }},
      {"a quote without end", [] { return filled("a: \"", "x"); }},
      {"a text in quotes of many lines", [] { return filled("a: \"", " \n"); }},
      {"escapes", [] { return filled("a: \"", "\\x41"); }},
      {"quotes in quotes", [] { return filled("a: '", "''"); }},
      {"characters of four bytes", [] { return filled("[", "\U0001F600,"); }},
      {"a block", [] { return filled("a: |\n", " x\n"); }},
      {"a block of brackets", [] { return filled("a: |\n ", "["); }},
      {"a folded block", [] { return filled("a: >\n x\n", "\n"); }},
      {"directives", [] { return filled("", "%TAG ! !\n"); }},
      {"different directives", [] { return numbered("%TAG !", "! x\n"); }},
      {"words of a directive", [] { return filled("%", "a "); }},
  };
  return texts;
}

struct Cost {
  bool is_accepted = false;
  double cpu_ms = 0;
  long peak_kib = 0;  ///< the peak of resident memory
};

/// Loads the spec in a separate process and returns the cost, so that no text affects the cost of
/// another.
Cost cost_of_loading(const LoadRequest& request) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(load_spec(request) ? 0 : 1);
  int status = 0;
  rusage usage{};
  REQUIRE(wait4(child, &status, 0, &usage) == child);
  REQUIRE(WIFEXITED(status));
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return {WEXITSTATUS(status) == 0, ms(usage.ru_utime) + ms(usage.ru_stime), usage.ru_maxrss};
}

TEST_CASE("every hostile YAML text is read or refused within a second of CPU time and 128 MiB") {
  constexpr double kMostMs = 1000 * cpu_limit_s(1);
  constexpr long kMostKiB = 128 * 1024;
  for (const HostileText& hostile : hostile_yaml_texts()) {
    INFO(std::string(hostile.name));
    LoadRequest request;
    request.file = "exp.yaml";
    request.text = hostile.make_text();
    request.current_dir = "/";
    const Cost cost = cost_of_loading(request);
    CHECK(cost.is_accepted == hostile.has_no_values);
    CHECK(cost.cpu_ms < kMostMs);
    if (!kWithSanitizer) CHECK(cost.peak_kib < kMostKiB);
  }
}

}  // namespace
}  // namespace dlrun
