#pragma once
// Converts values to JSON: an unknown value (an empty text, or nullopt) becomes null; see
// cli/OUTPUT.md.

#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace dlrun {

[[nodiscard]] inline nlohmann::ordered_json text_or_null(std::string_view text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

template <typename T>
[[nodiscard]] nlohmann::ordered_json value_or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace dlrun
