// `dlrun check`: reports every problem that can be found before the job is queued.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "launcher/submit/check_report.h"

namespace dlrun {
namespace {

struct CheckOptions {
  SpecOptions spec;
  bool json = false;
};

Result<int> check(Cli& cli, const CheckOptions& options) {
  TerminalReporter reporter(cli);
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(const auto report, check_experiment(cli, reporter, inspector, options.spec));
  if (options.json) {
    print_json(check_json(report));
  } else {
    constexpr std::size_t kLabelWidth = 10;
    print(cli, "{}: {}\n", report.job.experiment->loaded.file, styled(Style::kGreen, "valid"));
    print(cli, labelled(check_lines(report), kLabelWidth));
  }
  return report.why_unreachable.empty() ? kExitOk : kExitUnavailable;
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
