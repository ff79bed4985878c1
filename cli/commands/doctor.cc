// `dlrun doctor`: inspects this cluster, explains what the findings mean for dlrun, and drafts a
// site file.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/quoting.h"
#include "common/text.h"
#include "launcher/doctor/doctor_json.h"
#include "launcher/doctor/doctor_rows.h"
#include "launcher/doctor/findings.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {
namespace {

struct DoctorOptions {
  std::string cluster;
  bool site_file = false, json = false;
};

[[nodiscard]] Style style_of_kind(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kFine:
      return Style::kGreen;
    case Finding::Kind::kNote:
      return Style::kYellow;
    case Finding::Kind::kMissing:
      return Style::kRed;
  }
  return Style::kNone;
}

/// Prints the site that specs use on the cluster, or the commands that make a site file. cluster:
/// the value of -M; "" for this cluster.
void print_site(const Cli& cli, const ClusterFacts& facts, const std::string& cluster,
                const std::optional<std::string>& site) {
  if (site) {
    print(cli, "\nsite      {0}: specs without `site` use it (dlrun site show {0})\n", *site);
    return;
  }
  const std::string name = site_draft_name(facts);
  const auto dirs = user_config_folders(cli.env);
  const std::string folder =
      dirs.empty() ? "~/.config/dlrun/sites" : (dirs.front() / "sites").string();
  print(cli, "\nsite      {}\n",
        styled(Style::kYellow,
               "no site file lists this cluster: specs use the site 'generic', without limits"));
  print(cli, "          mkdir -p {0} && dlrun doctor{2} --site-file > {0}/{1}.yaml\n", folder, name,
        cluster.empty() ? std::string() : " -M " + shell_quote(cluster));
  if (!cluster.empty()) return;  // the commands below act on the local cluster, not on that of -M
  print(cli,
        "          dlrun init -o exp.yaml && dlrun check exp.yaml && dlrun submit exp.yaml "
        "--watch\n");
}

Result<int> doctor(Cli& cli, const DoctorOptions& options) {
  if (options.json && options.site_file)
    return fail(Errc::kUsage, "--site-file prints YAML; it cannot be combined with --json");
  DLRUN_TRY_ASSIGN(auto facts, ask_cluster(cli.env, options.cluster));
  if (options.site_file) {
    for (const std::string& problem : facts.query_errors) print_warning(cli, problem);
    print_document(site_draft(facts));
    return kExitOk;
  }
  // dlrun assumes that the configured slurmrestd servers serve the default cluster.
  if (options.cluster.empty()) facts.rest_servers = ask_rest_servers(known_servers(cli).all());
  TerminalReporter reporter(cli);
  const auto site = site_of_cluster(cli, reporter, facts.cluster_name());
  if (options.json) {
    print_json(doctor_json(facts, site));
    return kExitOk;
  }
  print(cli, "{}, Slurm {}\n\n", styled(Style::kBold, "cluster " + printable(facts.cluster_name())),
        printable(facts.setting("SLURM_VERSION")));
  for (const Finding& finding : findings(facts)) {
    print(cli, "  {}{:{}} {:<11} {}; {}\n",
          styled(style_of_kind(finding.kind), finding_kind_text(finding.kind)), "",
          8 - finding_kind_text(finding.kind).size(), finding.what, printable(finding.is),
          printable(finding.means));
  }
  print(cli, "\n{}", table(partition_rows(facts)));
  print_site(cli, facts, options.cluster, site);
  return kExitOk;
}

}  // namespace

void add_doctor(CLI::App& root, Action& action) {
  auto options = std::make_shared<DoctorOptions>();
  Subcommand command(root, "doctor",
                     "Show what this cluster has and what is missing, or print a site file for it");
  command
      .option("-M,--cluster", options->cluster,
              "Cluster to examine instead of this one (-M of Slurm)")
      .type_name("NAME");
  command.flag("--site-file", options->site_file, "Print only the draft of a site file");
  command.flag("--json", options->json, "Print a JSON object");
  command.calls(doctor, options, action);
}

}  // namespace dlrun
