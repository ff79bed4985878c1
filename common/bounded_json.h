#pragma once
// The one JSON parser for text that somebody else may have written. nlohmann's parser takes any
// depth and any number of values, and its values are copied, printed and compared by recursion:
// 100,000 nested brackets end the process, and an object of a million names costs hours. The text
// is measured before it is parsed.

#include <cstddef>
#include <limits>
#include <string_view>

#include <nlohmann/json.hpp>

namespace dlrun {

struct JsonLimits {
  std::size_t depth = 64;          ///< of arrays and objects inside each other
  std::size_t values = 1'000'000;  ///< in all; one costs up to 70 bytes of memory
  std::size_t members =
      256;  ///< of one object; nlohmann's ordered objects are searched name by name
};

/// For objects that are trees (nlohmann::json), in which a name is found fast.
[[nodiscard]] constexpr JsonLimits limits_of_trees() {
  return {.depth = 64, .values = 1'000'000, .members = 1'000'000};
}

/// True when text, as far as it is JSON, keeps within limits. One pass, constant memory, no
/// recursion. Says nothing of whether text is JSON.
[[nodiscard]] bool is_within(std::string_view text, const JsonLimits& limits);

/// Parses text. Returns a discarded value (is_discarded(); no object, no array) when it is no JSON
/// or exceeds limits. Never throws but for want of memory.
template <typename Json = nlohmann::ordered_json>
[[nodiscard]] Json parse_json(std::string_view text, const JsonLimits& limits = {}) {
  if (!is_within(text, limits)) return Json(nlohmann::detail::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace dlrun
