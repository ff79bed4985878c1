#pragma once
// Finds the folders, the site and the servers that apply to this user on this machine.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "launcher/spec/known_servers.h"
#include "launcher/submit/context.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// Returns the folders that may hold sites/, presets/ and hosts/: the user's folders, then
/// share/dlrun of the installation. share/dlrun is found from the path of the binary, so that the
/// installation can be moved.
[[nodiscard]] std::vector<std::filesystem::path> config_folders(const Context& context);

/// Returns the slurmrestds that site files list: those of the user, of the installation, and the
/// built-in ones. dlrun contacts no others.
[[nodiscard]] KnownServers known_servers(const Context& context);

/// Returns the site of jobs without a spec: $DLRUN_SITE, else the site of `clusters` (Slurm's -M;
/// this cluster if empty), else "generic".
[[nodiscard]] std::string site_here(const Context& context, Reporter& reporter,
                                    const std::string& clusters = "");

/// Returns the site of a spec that has no key `site` and whose job runs on the cluster `cluster`:
/// $DLRUN_SITE, else the site that lists the cluster; nullopt if no site does. Reports problems of
/// site files, also if $DLRUN_SITE decides.
[[nodiscard]] std::optional<std::string> site_of_cluster(const Context& context, Reporter& reporter,
                                                         const std::string& cluster);

/// Returns the runs folder of jobs without a spec: the option, else $DLRUN_RUNS, else the folder of
/// the site that site_here() returns, else ./runs. Fails with kNotFound if the site does not exist.
[[nodiscard]] Result<std::string> runs_directory_here(const Context& context, Reporter& reporter,
                                                      const std::optional<std::string>& option,
                                                      const std::string& clusters = "");

/// Returns the absolute path of the folder that contains `file`, a spec. The relative paths in the
/// spec start from this folder.
[[nodiscard]] std::filesystem::path folder_of(const Context& context, const std::string& file);

}  // namespace dlrun
