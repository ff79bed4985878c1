// `dlrun site`: lists the known sites and marks the site of this machine, or shows one site.

#include <algorithm>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/files.h"
#include "common/text.h"
#include "launcher/spec/site_json.h"
#include "launcher/spec/sites.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

struct SiteOptions {
  std::string act, name;
  bool json = false;
};

Result<int> list(const Cli& cli, bool json) {
  TerminalReporter reporter(cli);
  const auto dirs = config_folders(cli);
  const std::string here = site_here(cli, reporter);
  auto names = site_names(dirs);
  std::sort(names.begin(), names.end());
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows = {
      {"", "SITE", "CLUSTERS", "PARTITIONS", "WHAT IT IS"}};
  for (const std::string& name : names) {
    const auto site = find_site(name, dirs);
    if (!site) continue;
    if (json) {
      all.push_back(site_json(*site, name == here));
      continue;
    }
    if (!site->problems.empty()) print_diagnostics(cli, site->problems);
    const SiteProfile& profile = site->profile;
    rows.push_back({name == here ? "*" : " ", name, join(profile.cluster_names, " "),
                    profile.partitions.empty() ? "" : fmt::format("{}", profile.partitions.size()),
                    profile.help});
  }
  if (json) {
    print_json(all);
    return kExitOk;
  }
  print(cli, table(rows));
  print_note(cli, fmt::format("* marks the site that a spec uses if it sets no `site`; your own "
                              "site files belong in {}",
                              (dirs.front() / "sites").string()));
  return kExitOk;
}

/// Returns the site of this name, or the site in the file if `word` is a path.
[[nodiscard]] Result<Site> site_of(const Cli& cli, const std::string& word,
                                   const std::vector<std::filesystem::path>& dirs) {
  if (word.find('/') != std::string::npos || word.ends_with(".yaml")) {
    constexpr std::size_t kLargest = 1U << 20U;
    DLRUN_TRY_ASSIGN(auto content, read_file(cli.current_dir / word, kLargest));
    return read_site_file(word, std::move(content));
  }
  return require_site(word, dirs);
}

Result<int> show(const Cli& cli, const SiteOptions& options) {
  TerminalReporter reporter(cli);
  const auto dirs = config_folders(cli);
  const std::string here = site_here(cli, reporter);
  DLRUN_TRY_ASSIGN(const auto found,
                   site_of(cli, options.name.empty() ? here : options.name, dirs));
  const Site& site = found;
  const SiteProfile& profile = site.profile;
  print_diagnostics(cli, site.problems);
  const int code = site.problems.empty() ? kExitOk : kExitUsage;
  if (options.json) {
    print_json(site_json(site, profile.name == here));
    return code;
  }
  const auto line = [&](std::string_view title, std::string_view value) {
    if (!value.empty()) print(cli, "  {:<12} {}\n", title, printable(value));
  };
  print(cli, "{}{}\n", styled(Style::kBold, profile.name), profile.name == here ? "  (here)" : "");
  line("", profile.help);
  line("file", profile.source);
  line("docs", profile.docs);
  line("clusters", join(profile.cluster_names, " "));
  line("GPUs", fmt::format("requested with {}{}",
                           profile.gpu_style == "gres" ? "--gres=gpu:N" : "--gpus-per-node=N",
                           profile.max_gpus_per_node
                               ? fmt::format(", at most {} per node", *profile.max_gpus_per_node)
                               : ""));
  line("containers", profile.container_runtime);
  line("MPI", profile.mpi.empty()        ? "pmix"
              : profile.mpi == "default" ? "srun's own default"
                                         : profile.mpi);
  line("network", profile.interface);
  line("runs", profile.runs_dir.empty() ? "./runs" : profile.runs_dir);
  for (const auto& [name, value] : profile.environment)
    line("variable", fmt::format("{}={}", name, value));
  if (profile.partitions.empty()) return code;
  std::vector<std::vector<std::string>> rows = {
      {"", "PARTITION", "GPUS", "TYPES", "CPUS", "MEMORY", "NODES", "TIME", "WHAT IT IS"}};
  const auto shown = [](const std::optional<std::int64_t>& value) {
    return value ? fmt::format("{}", *value) : "?";
  };
  for (const auto& [name, partition] : profile.partitions) {
    rows.push_back(
        {name == profile.default_partition ? "*" : " ", name, shown(partition.gpus_per_node),
         join(partition.gpu_types, ","), shown(partition.cpus_per_node),
         partition.mem_per_node_mib ? fmt::format("{}G", *partition.mem_per_node_mib / 1024) : "?",
         shown(partition.max_nodes),
         partition.max_time_seconds ? format_time_limit(*partition.max_time_seconds) : "?",
         partition.help});
  }
  print(cli, "\n{}", table(rows));
  return code;
}

Result<int> list_or_show(Cli& cli, const SiteOptions& options) {
  if (options.act == "show") return show(cli, options);
  if (options.act != "list")
    return fail(Errc::kUsage, "site {}: expected list or show", printable(options.act));
  if (!options.name.empty())
    return fail(Errc::kUsage, "`dlrun site list` takes no name; use `dlrun site show {}`",
                options.name);
  return list(cli, options.json);
}

}  // namespace

void add_site(CLI::App& root, Action& action) {
  auto options = std::make_shared<SiteOptions>();
  Subcommand command(root, "site",
                     "Show what dlrun knows about clusters: limits, GPUs, containers, network");
  command.option("ACTION", options->act, "list (shows all sites) or show (shows one site)")
      .required();
  command.option("SITE", options->name,
                 "show: name of a site, or a site file (default: the site of this cluster)");
  command.flag("--json", options->json, "Print JSON");
  command.calls(list_or_show, options, action);
}

}  // namespace dlrun
