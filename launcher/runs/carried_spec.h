#pragma once
// The spec that a rendered script carries as comments after its last line. A user who edits the
// script and submits it therefore keeps the spec, and `dlrun diff` can show the edits.

#include <optional>
#include <string>
#include <string_view>

namespace dlrun {

struct CarriedSpec {
  std::string yaml;     ///< the resolved spec
  std::string version;  ///< the version of dlrun that rendered the script
  /// The paths that the script was rendered for: the spec's folder, the runs folder, the agent
  /// (empty if there is none).
  std::string folder, runs_dir, agent;
  std::string sha256;  ///< hash of the rendered script, without the carried spec
};

/// Returns the script with the carried spec after it. The hash in the added lines is computed from
/// `script`; carried.sha256 is ignored. The added lines are comments, which no shell executes.
[[nodiscard]] std::string with_carried_spec(std::string_view script, CarriedSpec carried);

/// Returns the spec that a script carries, even if the user has moved the spec's lines. Returns
/// nullopt if the script carries no spec or only a part of one.
[[nodiscard]] std::optional<CarriedSpec> carried_spec(std::string_view script);

/// A fault in the lines that carry the spec.
struct CarriedFault {
  std::size_t line = 0;  ///< the line in the script, from 1
  std::string what;      ///< such as "the text after '#: ' is no JSON object"
};
/// Returns why the carried spec cannot be read. Returns nullopt if the spec is complete or if there
/// is none, even if the user's own comments look similar. In a script with a carried spec, a line
/// of the user that starts with '#: ' and has no JSON object behind it is a fault.
[[nodiscard]] std::optional<CarriedFault> fault_of_carried_spec(std::string_view script);

/// Returns true if the script carries a spec, all other lines of the script are as they were
/// rendered, and no line was added.
[[nodiscard]] bool is_unedited(std::string_view script);

/// Returns the comment lines that carry the spec, as they are in the script.
[[nodiscard]] std::string carried_lines(std::string_view script);
/// Returns the script without the comment lines that carry the spec.
[[nodiscard]] std::string without_carried_spec(std::string_view script);

}  // namespace dlrun
