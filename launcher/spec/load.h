#pragma once
// exp.yaml in, JobSpec out; or everything that is wrong with it at once.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "common/env.h"
#include "launcher/spec/diagnostic.h"
#include "launcher/spec/preset.h"
#include "launcher/spec/site_profile.h"
#include "launcher/spec/spec.h"

namespace dlrun {

struct LoadRequest {
  std::string
      file;  ///< as the user named it: diagnostics show it, relative paths start at its folder
  std::optional<std::string> text;  ///< the content, where it does not come from that file
  std::vector<std::string>
      sets;  ///< "resources.nodes=4", later ones win; the value is a YAML scalar or flow collection
  Env env;   ///< for ${VAR}, DLRUN_SITE and the SBATCH_* defaults
  std::filesystem::path
      current_dir;  ///< absolute; what `file` and paths given by --set are relative to
  std::vector<std::filesystem::path>
      config_dirs;  ///< searched for sites/NAME.yaml and presets/NAME.yaml before the built-in ones
  std::string cluster_name;  ///< Slurm's ClusterName where the caller knows it, to match a site
  std::optional<SweepPoint>
      point;  ///< the point of the spec's sweep to load; stronger than everything else
};

/// A file that a spec is made of.
struct SpecFile {
  std::string name;  ///< as diagnostics and origins show it
  std::string text;
};

struct LoadedSpec {
  std::string file;  ///< as the user named it
  JobSpec spec;
  SiteProfile site;
  Preset preset;
  std::string folder;                ///< the spec's, absolute: where the job starts
  std::string text;                  ///< the file as it was read, for the run's spec.yaml
  std::vector<SpecFile> bases;       ///< what it inherits from, nearest first
  SpecFile site_file;                ///< the site's
  std::vector<Diagnostic> warnings;  ///< in order of position
};

/// The line under a diagnostic about a value of this origin; empty where there is none.
[[nodiscard]] std::string line_under(const LoadedSpec& loaded, const Origin& where);

/// Reads, merges and checks: a sweep's point (its first where none is asked for), then --set, then
/// the file, then what it inherits from (`base`), then SBATCH_*, then the site. Maps merge, any
/// other value of a stronger layer replaces a weaker one's. Asks nothing of a cluster, and of the
/// machine only the spec, site and preset files. Specs above 1 MiB, 64 levels or 100,000 nodes
/// after alias expansion, all files together, are refused in bounded time and memory. The error
/// holds everything that is wrong, and the warnings too, in order of position.
[[nodiscard]] tl::expected<LoadedSpec, std::vector<Diagnostic>> load_spec(
    const LoadRequest& request);

/// The same for another point of the sweep that sets the same keys: what was loaded for one point,
/// with the values of another. Right for keys whose values decide about no other key's layers: see
/// has_own_layers. The errors are validate's.
[[nodiscard]] std::vector<Diagnostic> move_to_point(LoadedSpec& loaded, const SweepPoint& point,
                                                    const Env& env);

/// True for a key whose value chooses other values' sources: launch.preset, resources.partition and
/// their like.
[[nodiscard]] bool has_own_layers(std::string_view key);

/// Where the user's sites/ and presets/ may be: $DLRUN_CONFIG, $XDG_CONFIG_HOME/dlrun (else
/// ~/.config/dlrun).
[[nodiscard]] std::vector<std::filesystem::path> config_directories(const Env& env);

/// A value that was set, as one line of YAML, and where it came from.
struct EffectiveValue {
  std::string key;  ///< "resources.nodes"; an entry of a free map is "environment.vars.NAME"
  std::string text;
  Origin origin;
};

/// In the key table's order.
[[nodiscard]] std::vector<EffectiveValue> effective_values(const JobSpec& spec);

/// The names of sites or presets ("sites", "presets"): built-in, and in dirs; sorted.
[[nodiscard]] std::vector<std::string> spec_config_names(
    std::string_view folder, const std::vector<std::filesystem::path>& dirs);

/// Every effective value as YAML, each with its origin as a comment: the run's resolved.yaml.
[[nodiscard]] std::string resolved_yaml(const LoadedSpec& loaded);

}  // namespace dlrun
