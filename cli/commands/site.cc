// `dlrun site`: lists the known sites and marks the site of this machine, or shows one site.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/text.h"
#include "launcher/spec/site_json.h"
#include "launcher/spec/site_text.h"

namespace dlrun {
namespace {

struct SiteOptions {
  std::string verb, name;
  bool json = false;
};

Result<int> list(const Cli& cli, bool json) {
  TerminalReporter reporter(cli);
  const auto dirs = config_folders(cli);
  const std::string here = site_here(cli, reporter);
  const auto sites = all_sites(dirs);
  if (json) {
    auto all = nlohmann::ordered_json::array();
    for (const Site& site : sites) all.push_back(site_json(site, site.profile.name == here));
    print_json(all);
    return kExitOk;
  }
  for (const Site& site : sites) {
    if (!site.problems.empty()) print_diagnostics(cli, site.problems);
  }
  print(cli, table(site_rows(sites, here)));
  print_note(cli, fmt::format("* marks the site that a spec uses if it sets no `site`; your own "
                              "site files belong in {}",
                              printable((dirs.front() / "sites").string())));
  return kExitOk;
}

Result<int> show(const Cli& cli, const SiteOptions& options) {
  TerminalReporter reporter(cli);
  const auto dirs = config_folders(cli);
  const std::string here = site_here(cli, reporter);
  DLRUN_TRY_ASSIGN(const auto site, site_of_name_or_file(options.name.empty() ? here : options.name,
                                                         cli.current_dir, dirs));
  const SiteProfile& profile = site.profile;
  print_diagnostics(cli, site.problems);
  const int code = site.problems.empty() ? kExitOk : kExitUsage;
  if (options.json) {
    print_json(site_json(site, profile.name == here));
    return code;
  }
  print(cli, "{}{}\n", styled(Style::kBold, profile.name), profile.name == here ? "  (here)" : "");
  constexpr std::size_t kLabelWidth = 13;
  print(cli, labelled(site_lines(profile), kLabelWidth));
  if (!profile.partitions.empty()) {
    print(cli, "\n{}", table(partition_rows(profile)));
    if (has_unknown_limits(profile))
      print_note(cli, "?: the site's file gives no value; the cluster may have a limit");
  }
  return code;
}

Result<int> list_or_show(Cli& cli, const SiteOptions& options) {
  if (options.verb == "show") return show(cli, options);
  if (options.verb != "list")
    return fail(Errc::kUsage, "site {}: expected list or show", printable(options.verb));
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
  command.option("ACTION", options->verb, "list (shows all sites) or show (shows one site)")
      .required();
  command.option("SITE", options->name,
                 "show: name of a site, or a site file (default: the site of this cluster)");
  command.flag("--json", options->json, "Print JSON");
  command.calls(list_or_show, options, action);
}

}  // namespace dlrun
