#pragma once
// Converts a swept value into JSON of its key's type.

#include <string>

#include <nlohmann/json.hpp>

namespace dlrun {

/// Returns a list for a list and an object for a map. Returns a single value as a number or a
/// boolean if the key's type allows that, and otherwise as text. For example, an environment
/// variable that looks like a number is text. The value of a program parameter is a number or a
/// boolean if it looks like one. If `yaml` is not valid YAML, returns it as a text. yaml: the value
/// in the sweep's record, one line of YAML.
[[nodiscard]] nlohmann::ordered_json typed_value(const std::string& key, const std::string& yaml);

}  // namespace dlrun
