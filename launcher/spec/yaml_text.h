#pragma once
// Formats text as YAML.

#include <string>
#include <string_view>

namespace dlrun {

/// Returns the text in double quotes on one line. Writes ${ as $${, so that loading a spec
/// does not replace it by a variable.
[[nodiscard]] std::string quoted_yaml(std::string_view text);

/// Returns the text without quotes if it consists of safe characters, does not start with '-' or
/// '.', and is neither empty nor the word null; otherwise returns the text in double quotes.
/// Numbers and booleans have no quotes: a spec's key, not YAML, decides the type.
[[nodiscard]] std::string yaml_text(std::string_view text);

}  // namespace dlrun
