#pragma once
// The spec that a rendered script carries with it, as comments behind its last line: whoever edits
// the script and submits it loses neither the spec nor the sight of what was edited.

#include <optional>
#include <string>
#include <string_view>

namespace dlrun {

struct CarriedSpec {
  std::string yaml;   ///< the resolved spec
  std::string dlrun;  ///< the version that rendered the script
  std::string folder, runs_dir,
      agent;  ///< for which it was rendered: the spec's, the runs', the agent's path (or none)
  std::string sha256;  ///< of the script as it was rendered, without what it carries
};

/// The script with carried's spec behind it; carried.sha256 is computed. Comments only: no shell
/// reads them.
[[nodiscard]] std::string with_spec(std::string_view script, CarriedSpec carried);

/// What a script carries, wherever in it; nothing where it carries none, or not whole.
[[nodiscard]] std::optional<CarriedSpec> carried_spec(std::string_view script);

struct CarriedFault {
  std::size_t line = 0;  ///< of the script, from 1
  std::string what;      ///< "its 'folder' or 'runs' is missing"
};
/// Why what a script carries cannot be read; nothing where it carries a whole spec, or none at all:
/// comments of anybody's that look alike are left alone.
[[nodiscard]] std::optional<CarriedFault> fault_of_carried(std::string_view script);

/// True for a script that carries its spec and is, but for what it carries, what render wrote.
[[nodiscard]] bool is_as_rendered(std::string_view script);

/// The comment lines that carry it, as they stand in the script, and all the others.
[[nodiscard]] std::string carried_lines(std::string_view script);
[[nodiscard]] std::string without_carried(std::string_view script);

}  // namespace dlrun
