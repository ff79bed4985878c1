#pragma once
// Explains keys, and the values of a spec with the origin of each.

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/shown_data.h"
#include "launcher/plan/plan.h"
#include "launcher/spec/key_help.h"

namespace dlrun {

/// Returns the JSON of `dlrun explain KEY --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json keys_json(const std::vector<const KeyRow*>& rows);

/// Returns the facts about one key (type, range, default, ...), one per line, without the key's
/// help text. Leaves out facts that the key does not have.
[[nodiscard]] LabelledLines key_lines(const KeyRow& row);
/// Returns a table of keys.
[[nodiscard]] TableRows keys_table(const std::vector<const KeyRow*>& rows);
/// Returns a table of the presets with their help texts. dirs: see launcher/spec/config_reader.h.
[[nodiscard]] TableRows presets_table(const std::vector<std::filesystem::path>& dirs);

/// The value of a key, and its origin.
struct ExplainedValue {
  std::string key, text;  ///< text: one line of YAML
  Origin origin;
  std::string origin_text;  ///< `origin`, for people
};

/// Returns the values from the layers of the spec (see load_spec()), then those that the site file
/// and the preset add to the script, then those that dlrun chose. Masks secrets: *** replaces
/// the value of a variable that is named like a secret, and "..." replaces tokens and passwords in
/// other values. plan: the plan of the same spec.
[[nodiscard]] std::vector<ExplainedValue> explain_values(const LoadedSpec& loaded,
                                                         const LaunchPlan& plan);

/// Returns the JSON of `dlrun explain SPEC --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json values_json(const std::vector<ExplainedValue>& values);

}  // namespace dlrun
