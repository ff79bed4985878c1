#pragma once
// Values as YAML writes them.

#include <string>
#include <string_view>

namespace dlrun {

/// A double-quoted scalar: any text on one line, in which a spec's reader replaces nothing (${ is
/// written $${).
[[nodiscard]] std::string yaml_string(std::string_view text);

/// Bare where YAML and its readers cannot take it for anything but this text, else in double
/// quotes.
[[nodiscard]] std::string yaml_text(std::string_view text);

}  // namespace dlrun
