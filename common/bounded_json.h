#pragma once
// The only JSON parser for text from untrusted sources. The parser checks depth and size before
// parsing, because nlohmann's library parses without limits, and copies, prints and compares values
// by recursion: 100,000 nested brackets would crash the process, and an object with a million names
// would take hours.

#include <cstddef>
#include <limits>
#include <string_view>

#include <nlohmann/json.hpp>

namespace dlrun {

struct JsonLimits {
  std::size_t depth = 64;          ///< levels of nested arrays and objects; at most 64
  std::size_t values = 1'000'000;  ///< number of values; each costs up to 70 bytes of memory
  /// Names per object; nlohmann's ordered objects search them one by one.
  std::size_t members = 256;
};

/// Returns limits for nlohmann::json, which keeps an object's names sorted and finds a name fast.
/// Its objects may therefore have a million names.
[[nodiscard]] constexpr JsonLimits limits_for_sorted_json() {
  return {.depth = 64, .values = 1'000'000, .members = 1'000'000};
}

/// Returns false if a parser of this text would exceed the limits. Counts brackets and commas up to
/// the end of the text, also after a syntax error, where a parser stops. Needs one pass and
/// constant memory, without recursion. Does not check that the text is JSON.
[[nodiscard]] bool is_within_limits(std::string_view text, const JsonLimits& limits);

/// Parses the text. Returns a discarded value (is_discarded(); neither object nor array) if the
/// text is not JSON or exceeds the limits. Throws only when out of memory.
template <typename Json = nlohmann::ordered_json>
[[nodiscard]] Json parse_json(std::string_view text, const JsonLimits& limits = {}) {
  if (!is_within_limits(text, limits)) return Json(nlohmann::detail::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace dlrun
