#pragma once
// Loads a spec, such as exp.yaml, into a JobSpec, or reports all its problems together.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "common/env.h"
#include "launcher/spec/diagnostic_text.h"
#include "launcher/spec/preset.h"
#include "launcher/spec/program_parameters.h"
#include "launcher/spec/site_profile.h"
#include "launcher/spec/spec.h"

namespace dlrun {

struct LoadRequest {
  /// The spec's file name as the user gave it. Diagnostics show it; relative paths start at its
  /// folder.
  std::string file;
  std::optional<std::string> text;  ///< the spec's text; absent: read it from `file`
  /// Arguments of --set such as "resources.nodes=4"; later ones win. A value that starts with a
  /// quote, '[' or '{' is YAML; any other value is plain text. An empty value, `null` and `~`
  /// remove the value of the key.
  std::vector<std::string> set_arguments;
  Env env;  ///< for ${VAR}, DLRUN_SITE and the defaults from SBATCH_* (see load_spec())
  /// The absolute folder from which `file`, and relative paths in --set, start.
  std::filesystem::path current_dir;
  /// Folders that are searched for sites/NAME.yaml and presets/NAME.yaml before the built-in ones.
  std::vector<std::filesystem::path> config_dirs;
  /// Slurm's ClusterName, which selects the site; empty if the caller does not know it.
  std::string cluster_name;
  /// The point of the spec's sweep to load. Its values override all others.
  std::optional<SweepPoint> point;
};

/// A file that contributes to a spec.
struct SpecFile {
  std::string name;  ///< the name in diagnostics and origins
  std::string text;
};

/// A spec that was loaded without errors, with its site and its preset.
struct LoadedSpec {
  std::string file;  ///< the file name that the user gave
  JobSpec spec;
  SiteProfile site;
  Preset preset;
  std::vector<Preset> component_presets;  ///< one for each of spec.components
  std::string folder;                     ///< the spec's folder, absolute: where the job starts
  std::string text;                       ///< the text of `file`, for the run's spec.yaml
  std::vector<SpecFile> bases;            ///< the files that the spec inherits from, nearest first
  SpecFile site_file;                     ///< the site's file
  std::vector<Diagnostic> warnings;       ///< sorted by position
  /// The values that contain fields ({NAME}) of program parameters. In `spec`, the values of the
  /// point have replaced the fields.
  SweptTemplates templates;
};

/// Returns the source line that a diagnostic about this origin shows. The line is hidden if it may
/// hold a secret. It is empty if the origin has no line number, or if `loaded` does not have the
/// text of the origin's file.
[[nodiscard]] SourceLine source_line_of(const LoadedSpec& loaded, const Origin& where);

/// The largest number of files of a spec: its own file and its bases.
inline constexpr std::size_t kMostSpecFiles = 32;

/// Reads, merges and checks a spec. A layer is a source of values. The layers, strongest first: the
/// sweep's point (the first one if the request has none), --set, the file, its bases (`base`),
/// the environment (SBATCH_ACCOUNT, SBATCH_PARTITION and SBATCH_QOS, but not inside a job), the
/// site, the preset. The preset sets at most one key: resources.tasks_per_node is 1 for a preset
/// that starts the ranks of a node itself. Maps merge; any other value replaces the value of a
/// weaker layer. Reads only the spec, site and preset files, and queries no cluster. Limits bound
/// the time and the memory: fails if a file is nested deeper than 64 levels, or if the spec and its
/// bases together have more than kMostSpecFiles files, 1 MiB or 100,000 YAML nodes (an alias counts
/// as all the nodes that it repeats). The error holds all problems and warnings, sorted by
/// position.
[[nodiscard]] tl::expected<LoadedSpec, std::vector<Diagnostic>> load_spec(
    const LoadRequest& request);

/// Changes a loaded spec from one point of a sweep to another that sets the same keys, without
/// reading the layers again. affects_other_layers() must be false for all keys whose values differ.
/// Returns the diagnostics of the values and of validate().
[[nodiscard]] std::vector<Diagnostic> move_to_point(LoadedSpec& loaded, const SweepPoint& point,
                                                    const Env& env);

/// Returns true if the values of other keys may depend on this key while the layers merge. Examples
/// of such keys are launch.preset and resources.partition.
[[nodiscard]] bool affects_other_layers(std::string_view key);

/// Returns the folders that may hold a user's sites/ and presets/: $DLRUN_CONFIG, then
/// $XDG_CONFIG_HOME/dlrun (without that variable ~/.config/dlrun).
[[nodiscard]] std::vector<std::filesystem::path> user_config_folders(const Env& env);

/// A value that was set, as one line of YAML, with its origin.
struct EffectiveValue {
  std::string key;  ///< "resources.nodes"; for a map with arbitrary names "environment.vars.NAME"
  std::string text;
  Origin origin;
};

/// Returns all values that were set, in the key table's order. The address in notify.webhook.url is
/// a secret: instead of that key, returns notify.webhook.secret with the name under which the run
/// keeps the address.
[[nodiscard]] std::vector<EffectiveValue> effective_values(const JobSpec& given);

/// Returns the run's parameters.json, which an MLflow server gets: an object with the text of every
/// value that was set, without the values of notify and track. Returns an empty text if the spec
/// has no track.mlflow.url.
[[nodiscard]] std::string parameters_json(const LoadedSpec& loaded);

/// Returns the values that a component does not inherit from the spec, with keys such as
/// "components.server.nodes".
[[nodiscard]] std::vector<EffectiveValue> own_values_of_component(const ComponentSpec& component);

/// Returns the names of all sites ("sites") or presets ("presets"): those in dirs first, then the
/// built-in ones; sorted within each group.
[[nodiscard]] std::vector<std::string> site_or_preset_names(
    std::string_view folder, const std::vector<std::filesystem::path>& dirs);

/// Returns the run's resolved.yaml: every value that was set, with its origin as a comment.
[[nodiscard]] std::string resolved_yaml(const LoadedSpec& loaded);

}  // namespace dlrun
