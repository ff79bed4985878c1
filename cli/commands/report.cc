// `dlrun report`: writes a page about one run, or a page that compares several runs or the points
// of a sweep.

#include <memory>

#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "common/files.h"
#include "launcher/report/run_pages.h"

namespace dlrun {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out;
};

Result<int> make_report(Cli& cli, const ReportOptions& options) {
  DLRUN_TRY_ASSIGN(
      const auto page,
      make_run_page(cli.env, known_servers(cli), cli.current_dir, runs_or_newest(options.runs),
                    [&cli](const std::string& text) { print_warning(cli, text); }));
  if (options.out == "-") {
    print_document(page.html);
  } else {
    const auto out = options.out.empty() ? page.default_file : cli.current_dir / options.out;
    DLRUN_TRY(write_file_atomic(out, page.html));
    print(cli, "{}\n", out.lexically_normal().string());
  }
  return page.has_last_known_states ? kExitUnavailable : kExitOk;
}

}  // namespace

void add_report(CLI::App& root, Action& action) {
  auto options = std::make_shared<ReportOptions>();
  Subcommand command(root, "report",
                     "Write a self-contained HTML page with the curves of a run, or one that "
                     "compares several runs or the points of a sweep");
  command.option("RUN", options->runs,
                 "The runs: names, ids or their first characters, job ids, paths, or `last` "
                 "(default: last)");
  command
      .option("-o,--output", options->out,
              "File to write; - means standard output (default: report.html in the directory of "
              "the run; ./report.html for several runs, and for another user's run)")
      .type_name("FILE");
  command.calls(make_report, options, action);
}

}  // namespace dlrun
