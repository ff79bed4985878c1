#include "common/bounded_json.h"

#include <algorithm>
#include <array>

namespace dlrun {
namespace {

constexpr std::size_t kDeepest = 64;

/// Returns the position after the closing quote of a string. at: the position after its opening
/// quote.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (;;) {
    at = text.find_first_of("\"\\", at);
    if (at == std::string_view::npos || at + 1 >= text.size()) return text.size();
    if (text[at] == '"') return at + 1;
    at += 2;
  }
}

}  // namespace

bool is_within_limits(std::string_view text, const JsonLimits& limits) {
  // Up to the first invalid byte, where the parser stops, this loop sees the same strings and
  // brackets as the parser. The counts are therefore never smaller than the parser's.
  const std::size_t deepest = std::min(limits.depth, kDeepest);
  struct Open {
    bool is_object = false;
    std::size_t commas = 0;
  };
  std::array<Open, kDeepest> open{};
  std::size_t depth = 0, values = 1;
  for (std::size_t at = 0; at < text.size();) {
    switch (text[at++]) {
      case '"':
        at = end_of_string(text, at);
        break;
      case '[':
      case '{':
        if (depth == deepest || ++values > limits.values) return false;
        open[depth++] = {text[at - 1] == '{', 0};
        break;
      case ']':
      case '}':
        if (depth > 0) --depth;
        break;
      case ',':
        if (++values > limits.values) return false;
        if (depth > 0 && open[depth - 1].is_object && ++open[depth - 1].commas >= limits.members)
          return false;
        break;
      default:
        break;
    }
  }
  return true;
}

}  // namespace dlrun
