#pragma once
// Which site a job runs on, and what that site's file says: configs/sites/*.yaml, shadowed by the
// user's sites/*.yaml.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "launcher/spec/diagnostic.h"
#include "launcher/spec/rest_server.h"
#include "launcher/spec/site_profile.h"

namespace dlrun {

class SpecBuilder;

/// A site's file, read. Its problems leave the facts they are about at their defaults.
struct Site {
  SiteProfile profile;
  std::string text;                  ///< the file's
  std::vector<Diagnostic> problems;  ///< of the facts, and of every default for a spec's keys
};

/// The names of all sites: the user's first, then the built-in ones.
[[nodiscard]] std::vector<std::string> site_names(const std::vector<std::filesystem::path>& dirs);

/// Nothing when no folder has it.
[[nodiscard]] std::optional<Site> find_site(std::string_view name,
                                            const std::vector<std::filesystem::path>& dirs);

/// A site's file that lies anywhere; its name is the file's without .yaml.
[[nodiscard]] Site read_site_file(std::string source, std::string text);

/// The slurmrestds that a site's file lists: under `slurmrestd`, and as the url and token_file of
/// its defaults. env: for ~ and ${VAR}. What is wrong with the file is for the commands that show
/// or use the site to tell.
[[nodiscard]] std::vector<RestServer> servers_of_site(
    std::string_view name, const std::vector<std::filesystem::path>& dirs, const Env& env);

/// The first site one of whose `clusters` is cluster_name; nothing where none is. A file that
/// cannot be read is passed over, with a warning in problems where it is the user's.
[[nodiscard]] std::optional<std::string> match_site(std::string_view cluster_name,
                                                    const std::vector<std::filesystem::path>& dirs,
                                                    std::vector<Diagnostic>& problems);

/// The site's facts; its defaults become the weakest layer of the spec, those of the job's
/// partition before the rest. A key that the spec gives in another form (gres for gpus_per_node)
/// keeps its defaults out. Everything wrong goes to builder. Nothing when no folder has the site.
[[nodiscard]] std::optional<Site> apply_site(SpecBuilder& builder, std::string_view name,
                                             const std::vector<std::filesystem::path>& dirs,
                                             const std::string& current_dir);

}  // namespace dlrun
