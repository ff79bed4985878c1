#pragma once
// Chooses the site of a job and reads its file. A user's sites/NAME.yaml replaces the built-in
// configs/sites/NAME.yaml.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/spec/diagnostic_text.h"
#include "launcher/spec/rest_server.h"
#include "launcher/spec/site_profile.h"

namespace dlrun {

class SpecBuilder;

/// A site file after reading. A fact with a problem keeps the default value of its member. If some
/// items of a list are invalid, the list has only the valid ones.
struct Site {
  SiteProfile profile;
  std::string text;  ///< the file's text
  /// Problems of the file, of its facts, and of its defaults for a spec's keys.
  std::vector<Diagnostic> problems;
};

/// Returns the names of all sites: the user's first, then the built-in ones.
[[nodiscard]] std::vector<std::string> site_names(const std::vector<std::filesystem::path>& dirs);

/// Returns the site; nullopt if there is no site of this name. If the file cannot be read or
/// parsed, returns a site without facts and with `problems`.
[[nodiscard]] std::optional<Site> find_site(std::string_view name,
                                            const std::vector<std::filesystem::path>& dirs);

/// Returns the site as find_site() does. Fails with kNotFound and the known names if there is no
/// site of this name.
[[nodiscard]] Result<Site> require_site(std::string_view name,
                                        const std::vector<std::filesystem::path>& dirs);

/// Returns all sites, sorted by their names.
[[nodiscard]] std::vector<Site> all_sites(const std::vector<std::filesystem::path>& dirs);

/// Returns a site by its name, as require_site() does. If `name_or_file` has a '/' or ends with
/// .yaml, returns the site in this file, relative to `folder`; fails as read_file() does.
[[nodiscard]] Result<Site> site_of_name_or_file(const std::string& name_or_file,
                                                const std::filesystem::path& folder,
                                                const std::vector<std::filesystem::path>& dirs);

/// Returns the site in the text of a file. source: the file's path; the site's name is the file's
/// name without .yaml. If the text is not valid YAML, returns a site without facts and with
/// `problems`.
[[nodiscard]] Site parse_site_file(std::string source, std::string text);

/// Returns the slurmrestd servers that a site's file lists: under `slurmrestd`, and as submit.url
/// and submit.token_file in its defaults and those of its partitions. Only entries under
/// `slurmrestd` can have a version and a user. Leaves out invalid addresses. `env` is for ~ and
/// ${VAR}. Reports no problems of the file: the commands that show or use the site report them.
[[nodiscard]] std::vector<RestServer> servers_of_site(
    std::string_view name, const std::vector<std::filesystem::path>& dirs, const Env& env);

/// Returns the name of the first site with a `clusters` entry that matches cluster_name; nullopt if
/// there is none, or if cluster_name is empty. Skips files that cannot be read, and files whose
/// `clusters` has no valid entry. Adds warnings to `problems`: the folders that cannot be searched,
/// and the problems of the user's site files that were read before the site was found.
[[nodiscard]] std::optional<std::string> site_name_of_cluster(
    std::string_view cluster_name, const std::vector<std::filesystem::path>& dirs,
    std::vector<Diagnostic>& problems);

/// Applies the site's defaults to builder and returns the site. The caller has applied all
/// stronger layers. The defaults of the job's partition override the site's other
/// defaults. A default is ignored if the spec sets a key that excludes it, such as gres for
/// gpus_per_node. Relative paths in the defaults start at current_dir. Reports all problems to
/// builder. Returns nullopt if there is no site of this name.
[[nodiscard]] std::optional<Site> apply_site(SpecBuilder& builder, std::string_view name,
                                             const std::vector<std::filesystem::path>& dirs,
                                             const std::string& current_dir);

}  // namespace dlrun
