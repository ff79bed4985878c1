#pragma once
// Site profiles and presets: small YAML maps with a fixed set of keys, the user's file before the built-in one.
// Private to the loading of specs.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/diagnostic.h"
#include "launcher/spec/preset.h"
#include "launcher/spec/site_profile.h"
#include "launcher/spec/yaml_document.h"

namespace dlrun {

/// A profile's file, found and read.
struct ConfigFile {
  Origin::Kind kind = Origin::Kind::kSite;
  std::string source;  ///< the path, or "built-in sites/generic.yaml"
  std::string text;
  YamlDocument document;
};

/// FOLDER/NAME.yaml of the first directory that has it, else the built-in one. Nothing when there is none; what is
/// wrong with a file that exists goes to diagnostics.
[[nodiscard]] std::optional<ConfigFile> find_config(std::string_view folder, std::string_view name,
                                                    const std::vector<std::filesystem::path>& dirs,
                                                    std::vector<Diagnostic>& diagnostics);

/// The names of FOLDER's files, built-in and in dirs, sorted.
[[nodiscard]] std::vector<std::string> config_names(std::string_view folder,
                                                    const std::vector<std::filesystem::path>& dirs);

/// The site's facts; a wrong one is reported and left at its default. defaults_id: the map of spec keys it sets, if
/// any.
[[nodiscard]] SiteProfile read_site(const ConfigFile& file, std::string_view name, std::optional<YamlId>& defaults_id,
                                    std::vector<Diagnostic>& diagnostics);
[[nodiscard]] Preset read_preset(const ConfigFile& file, std::string_view name, std::vector<Diagnostic>& diagnostics);

}  // namespace dlrun
