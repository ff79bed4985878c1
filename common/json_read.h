#pragma once
// Reads fields of untrusted JSON (common/bounded_json.h parses it), and writes JSON as text
// (dump()). A field of the wrong type counts as missing. For a missing field, text() returns "",
// boolean() returns false, and integer() and number() return nullopt. No function throws.

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "common/bounded_json.h"

namespace dlrun::json_read {

template <typename Json>
[[nodiscard]] std::string text(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->template get<std::string>()
                                                     : std::string();
}

template <typename Json>
[[nodiscard]] std::optional<std::int64_t> integer(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->template get<std::int64_t>();
}

template <typename Json>
[[nodiscard]] std::optional<double> number(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->template get<double>();
}

template <typename Json>
[[nodiscard]] bool boolean(const Json& object, const char* key) {
  if (!object.is_object()) return false;
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->template get<bool>();
}

/// Parses text as a JSON object. Returns nullopt if the text is not an object within the limits of
/// common/bounded_json.h.
[[nodiscard]] inline std::optional<nlohmann::ordered_json> object_of(std::string_view text) {
  auto parsed = parse_json(text);
  if (!parsed.is_object()) return std::nullopt;
  return parsed;
}

/// Returns the value as text. Replaces bytes that are not UTF-8, and does not throw. indent: spaces
/// per level; -1: one line.
template <typename Json>
[[nodiscard]] std::string dump(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dlrun::json_read
