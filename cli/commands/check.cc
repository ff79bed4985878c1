// `dlrun check`: reports every problem that can be found before the job is queued.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/submission_output.h"
#include "cli/terminal/print.h"
#include "cli/terminal/state_and_cost.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/text.h"
#include "launcher/submit/check_report.h"
#include "launcher/view/account_text.h"
#include "launcher/view/component_lines.h"
#include "launcher/view/start_and_limits.h"

namespace dlrun {
namespace {

struct CheckOptions {
  SpecOptions spec;
  bool json = false;
};

void print_report(const Cli& cli, const CheckReport& report) {
  const LoadedSpec& loaded = report.job.experiment->loaded;
  const auto& to_fetch = report.checked.to_fetch;
  print(cli, "{}: {}\n", loaded.file, styled(Style::kGreen, "valid"));
  print(cli, "  name      {}\n  site      {} ({})\n  runs      {}\n", report.job.name,
        loaded.site.name, loaded.site.source, report.job.runs_dir);
  std::string_view title = "components";
  for (const std::string& line : component_lines(loaded)) {
    print(cli, "  {:<11}{}\n", title, line);
    title = "";
  }
  if (report.sweep) print(cli, "  sweep     {}\n", points_and_cost_text(*report.sweep));
  if (const auto hours = cost_text(report.job.requests.requested); !report.sweep && !hours.empty())
    print(cli, "  cost      {}\n", hours);
  if (report.account) print(cli, "  account   {}\n", account_text(*report.account));
  if (const auto limits = partition_text(loaded.site, loaded.spec.resources.partition.value_or(""));
      !limits.empty())
    print(cli, "  partition {}\n", limits);
  if (!to_fetch.empty())
    print(cli, "  data      missing; `dlrun submit` downloads {}: {}\n",
          to_fetch.size() == 1 ? "it" : "them", printable(join(to_fetch, ", ")));
  if (report.job.settings.dependency)
    print(cli, "  waits     {}\n", *report.job.settings.dependency);
  print(cli, "  Slurm     {}\n",
        report.has_slurm ? report.verdict : "was not asked: there is no sbatch in PATH");
}

Result<int> check(Cli& cli, const CheckOptions& options) {
  TerminalReporter reporter(cli);
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(const auto report, check_experiment(cli, reporter, inspector, options.spec));
  if (options.json) {
    print_json(check_json(report));
  } else {
    print_report(cli, report);
  }
  return kExitOk;
}

}  // namespace

void add_check(CLI::App& root, Action& action) {
  auto options = std::make_shared<CheckOptions>();
  Subcommand command(root, "check",
                     "Report every mistake in a spec, and whether Slurm would accept the job");
  add_spec_options(command, options->spec);
  command.flag("--json", options->json, "Print a JSON object");
  command.calls(check, options, action);
}

}  // namespace dlrun
