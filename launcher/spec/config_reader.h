#pragma once
// Finds and parses the YAML files in the folders sites, presets and hosts of a configuration, and
// reads presets. A user's site or preset replaces the built-in site or preset of the same name; no
// host is built in. `folder`: the folder's name. `dirs`: the configuration's directories; a file in
// an earlier directory replaces a file of the same name in a later one.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/diagnostic_text.h"
#include "launcher/spec/preset.h"
#include "launcher/spec/yaml_document.h"

namespace dlrun {

/// A parsed file of one of the folders.
struct ConfigFile {
  Origin::Kind kind = Origin::Kind::kSite;
  std::string source;  ///< the file's path, or "built-in sites/generic.yaml"
  std::string text;
  YamlDocument document;
};

/// Returns a warning for every DIR/FOLDER that exists but cannot be searched, for example because a
/// permission is missing. The other functions skip these folders.
[[nodiscard]] std::vector<Diagnostic> unsearchable_folder_warnings(
    std::string_view folder, const std::vector<std::filesystem::path>& dirs);

/// Returns FOLDER/NAME.yaml of the first directory that has it, else the built-in file. Returns
/// nullopt if no such file exists. If the file cannot be read or parsed, adds an error to
/// diagnostics and returns nullopt.
[[nodiscard]] std::optional<ConfigFile> find_config(std::string_view folder, std::string_view name,
                                                    const std::vector<std::filesystem::path>& dirs,
                                                    std::vector<Diagnostic>& diagnostics);

/// Returns the built-in text of FOLDER/NAME.yaml if that text is in effect: no directory has the
/// file, or the first directory that has the file holds the same bytes. Returns nullopt otherwise.
/// The built-in text has no errors, so the caller need not check it.
[[nodiscard]] std::optional<std::string_view> effective_built_in_config(
    std::string_view folder, std::string_view name, const std::vector<std::filesystem::path>& dirs);

/// Returns the names of FOLDER's files: those of the first directory, then those that each further
/// directory adds, then the remaining built-in ones; sorted within each group.
[[nodiscard]] std::vector<std::string> config_names(std::string_view folder,
                                                    const std::vector<std::filesystem::path>& dirs);

/// Reads a preset. Adds problems to diagnostics. A member whose value has a problem keeps its
/// default; a list gets its valid items.
[[nodiscard]] Preset read_preset(const ConfigFile& file, std::string_view name,
                                 std::vector<Diagnostic>& diagnostics);

/// Returns all presets, in the order of config_names(). Leaves out a preset that has an error.
[[nodiscard]] std::vector<Preset> read_presets(const std::vector<std::filesystem::path>& dirs);

}  // namespace dlrun
