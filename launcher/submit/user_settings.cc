#include "launcher/submit/user_settings.h"

#include <utility>
#include <vector>

#include "common/text.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/plan/plan.h"
#include "launcher/spec/sites.h"

namespace dlrun {

std::filesystem::path folder_of(const Context& context, const std::string& file) {
  return (context.current_dir / file).lexically_normal().parent_path();
}

std::vector<std::filesystem::path> config_folders(const Context& context) {
  auto folders = user_config_folders(context.env);
  folders.push_back(context.bin_dir.parent_path() / "share" / "dlrun");
  return folders;
}

std::optional<std::string> site_of_cluster(const Context& context, Reporter& reporter,
                                           const std::string& cluster) {
  std::vector<Diagnostic> problems;
  auto matched = site_name_of_cluster(cluster, config_folders(context), problems);
  reporter.diagnostics(problems);
  const std::string chosen = context.env.get_or("DLRUN_SITE", "");
  return chosen.empty() ? std::move(matched) : chosen;
}

std::string site_here(const Context& context, Reporter& reporter, const std::string& clusters) {
  if (const std::string chosen = context.env.get_or("DLRUN_SITE", ""); !chosen.empty())
    return chosen;
  return site_of_cluster(context, reporter,
                         clusters.empty() ? configured_cluster_name(context.env) : clusters)
      .value_or("generic");
}

Result<std::string> runs_directory_here(const Context& context, Reporter& reporter,
                                        const std::optional<std::string>& option,
                                        const std::string& clusters) {
  SiteProfile profile;
  if (option.value_or("").empty() && context.env.get_or("DLRUN_RUNS", "").empty()) {
    const auto name = site_here(context, reporter, clusters);
    const auto site = find_site(name, config_folders(context));
    if (!site && name != "generic")
      return fail(Errc::kNotFound,
                  "DLRUN_SITE: there is no site '{}'; `dlrun site list` lists the sites",
                  printable(name));
    if (site) reporter.diagnostics(site->problems);
    if (site) profile = site->profile;
  }
  return runs_directory(option, context.env, profile, context.current_dir);
}

KnownServers known_servers(const Context& context) {
  return {config_folders(context), context.env};
}

}  // namespace dlrun
