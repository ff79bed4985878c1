#pragma once
// A swept value for programs: of its key's own type.

#include <string>

#include <nlohmann/json.hpp>

namespace dlrun {

/// yaml: the value as the sweep's record has it, one line of YAML. Numbers and true/false where the
/// key takes them, a list as a list, anything else as the text that the job gets: an environment
/// variable that looks like a number is text.
[[nodiscard]] nlohmann::ordered_json typed_value(const std::string& key, const std::string& yaml);

}  // namespace dlrun
