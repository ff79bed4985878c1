#pragma once
// Site profiles and presets as files: the user's before the built-in one. Private to the loading of
// specs.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/diagnostic.h"
#include "launcher/spec/preset.h"
#include "launcher/spec/yaml_document.h"

namespace dlrun {

/// A profile's file, found and read.
struct ConfigFile {
  Origin::Kind kind = Origin::Kind::kSite;
  std::string source;  ///< the path, or "built-in sites/generic.yaml"
  std::string text;
  YamlDocument document;
};

/// Warnings of the FOLDERs that are there and cannot be looked into: they are passed over.
[[nodiscard]] std::vector<Diagnostic> closed_folders(
    std::string_view folder, const std::vector<std::filesystem::path>& dirs);

/// FOLDER/NAME.yaml of the first directory that has it, else the built-in one. Nothing when there
/// is none; what is wrong with a file that exists goes to diagnostics.
[[nodiscard]] std::optional<ConfigFile> find_config(std::string_view folder, std::string_view name,
                                                    const std::vector<std::filesystem::path>& dirs,
                                                    std::vector<Diagnostic>& diagnostics);

/// The text of FOLDER/NAME.yaml where it is, byte for byte, the one that dlrun brings: it needs no
/// checks. Nothing when the first directory that has the file has another one.
[[nodiscard]] std::optional<std::string_view> built_in_config(
    std::string_view folder, std::string_view name, const std::vector<std::filesystem::path>& dirs);

/// The names of FOLDER's files: those of the first directory, then those that the second adds, and
/// at last the built-in ones; sorted within each.
[[nodiscard]] std::vector<std::string> config_names(std::string_view folder,
                                                    const std::vector<std::filesystem::path>& dirs);

[[nodiscard]] Preset read_preset(const ConfigFile& file, std::string_view name,
                                 std::vector<Diagnostic>& diagnostics);

}  // namespace dlrun
