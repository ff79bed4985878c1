// `dlrun nodes`: lists the bad nodes that runs remember (health.known_bad), or forgets some of
// them.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/text.h"
#include "launcher/submit/known_bad_file.h"

namespace dlrun {
namespace {

struct NodesOptions {
  SpecOptions spec;
  std::string file;
  std::vector<std::string> forget;
  bool json = false;
};

Result<int> nodes(Cli& cli, const NodesOptions& options) {
  if (options.json && !options.forget.empty())
    return fail(Errc::kUsage, "--json lists nodes; it cannot be combined with --forget");
  TerminalReporter reporter(cli);
  DLRUN_TRY_ASSIGN(const auto file,
                   chosen_known_bad_file(cli, reporter, options.file, options.spec));
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  DLRUN_TRY_ASSIGN(const auto known, read_bad_nodes(file, now));
  if (!options.forget.empty()) {
    DLRUN_TRY(forget_nodes(reporter, file, options.forget, known, now));
    return kExitOk;
  }
  if (options.json) {
    print_json(bad_nodes_json(file, known));
    return kExitOk;
  }
  if (known.empty()) {
    print_note(cli, fmt::format("no node is remembered as bad in {}", printable(file.string())));
    return kExitOk;
  }
  constexpr std::size_t kReasonColumns = 60;
  std::vector<std::vector<std::string>> rows = {
      {"NODE", "CLUSTER", "SINCE", "UNTIL", "RUN", "REASON"}};
  for (const BadNode& bad : known) {
    rows.push_back({bad.node, bad.cluster, utc_timestamp(bad.since).substr(0, 16),
                    utc_timestamp(bad.until).substr(0, 16), bad.run,
                    shortened(bad.reason, kReasonColumns)});
  }
  print(cli, table(rows));
  return kExitOk;
}

}  // namespace

void add_nodes(CLI::App& root, Action& action) {
  auto options = std::make_shared<NodesOptions>();
  Subcommand command(
      root, "nodes",
      "List the bad nodes that earlier runs found and later runs avoid, or forget some of them");
  command.option("SPEC", options->spec.file,
                 "Spec that names the file of bad nodes (health.known_bad)");
  command
      .option("--runs", options->spec.runs_dir,
              "Runs folder with the file of bad nodes (default: $DLRUN_RUNS, else the folder of "
              "the site, else ./runs)")
      .type_name("DIR");
  command.option("--file", options->file, "File of bad nodes").type_name("FILE");
  command
      .option("--forget", options->forget,
              "Forget that these nodes are bad: n3 or n[1-4]; repeatable")
      .type_name("NODE")
      .repeatable();
  command.flag("--json", options->json, "Print a JSON object");
  command.calls(nodes, options, action);
}

}  // namespace dlrun
