// `dlrun nodes`: lists or forgets the bad nodes that runs remember (health.known_bad).

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/bad_nodes.h"
#include "common/hostlist.h"
#include "common/json_or_null.h"
#include "common/text.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/spec/sites.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

struct NodesOptions {
  SpecOptions spec;
  std::string file;
  std::vector<std::string> forget;
  bool json = false;
};

/// Returns the path of the file of bad nodes: from --file, else from the spec, else in the runs
/// folder.
Result<std::filesystem::path> file_of(const Cli& cli, const NodesOptions& options) {
  if (!options.file.empty()) return (cli.current_dir / options.file).lexically_normal();
  TerminalReporter reporter(cli);
  if (options.spec.file.empty()) {
    DLRUN_TRY_ASSIGN(const auto runs, runs_directory_here(cli, reporter, options.spec.runs));
    return known_bad_file_in(runs);
  }
  DLRUN_TRY_ASSIGN(const auto prepared, prepare(cli, reporter, options.spec, Target::kSlurm));
  if (prepared.plan.known_bad) return prepared.plan.known_bad->file;
  return fail(Errc::kUsage,
              "{}: its runs do not remember bad nodes; set health.known_bad, for example to 7d",
              options.spec.file);
}

Result<> forget(const Cli& cli, const std::filesystem::path& file,
                const std::vector<std::string>& lists, const std::vector<BadNode>& known,
                std::chrono::sys_seconds now) {
  std::vector<std::string> chosen;
  for (const std::string& list : lists) {
    const auto nodes = expand_hostlist(list);
    if (!nodes) return within("--forget", nodes.error());
    for (const std::string& node : *nodes) {
      const bool is_known = std::any_of(known.begin(), known.end(),
                                        [&](const BadNode& bad) { return bad.node == node; });
      if (!is_known)
        return fail(Errc::kNotFound, "{}: {} is not remembered as bad", file.string(),
                    printable(node));
      chosen.push_back(node);
    }
  }
  for (const std::string& node : chosen) {
    DLRUN_TRY(forget_bad_node(file, node, now));
    print_note(cli, fmt::format("{} is no longer remembered as bad", printable(node)));
  }
  return {};
}

void print_json_of(const std::filesystem::path& file, const std::vector<BadNode>& known) {
  Json nodes = Json::array();
  for (const BadNode& bad : known) {
    nodes.push_back({{"node", bad.node},
                     {"cluster", text_or_null(bad.cluster)},
                     {"reason", bad.reason},
                     {"run", text_or_null(bad.run)},
                     {"job", text_or_null(bad.job)},
                     {"since", utc_timestamp(bad.since)},
                     {"until", utc_timestamp(bad.until)}});
  }
  print_json(Json{{"file", file.string()}, {"nodes", nodes}});
}

Result<int> nodes(Cli& cli, const NodesOptions& options) {
  DLRUN_TRY_ASSIGN(const auto file, file_of(cli, options));
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  DLRUN_TRY_ASSIGN(const auto known, read_bad_nodes(file, now));
  if (!options.forget.empty()) {
    DLRUN_TRY(forget(cli, file, options.forget, known, now));
    return kExitOk;
  }
  if (options.json) {
    print_json_of(file, known);
    return kExitOk;
  }
  if (known.empty()) {
    print_note(cli, fmt::format("no node is remembered as bad in {}", file.string()));
    return kExitOk;
  }
  constexpr std::size_t kShownReason = 60;
  std::vector<std::vector<std::string>> rows = {
      {"NODE", "CLUSTER", "SINCE", "UNTIL", "RUN", "REASON"}};
  for (const BadNode& bad : known) {
    rows.push_back({bad.node, bad.cluster, utc_timestamp(bad.since).substr(0, 16),
                    utc_timestamp(bad.until).substr(0, 16), bad.run,
                    shortened(bad.reason, kShownReason)});
  }
  print(cli, table(rows));
  return kExitOk;
}

}  // namespace

void add_nodes(CLI::App& root, Action& action) {
  auto options = std::make_shared<NodesOptions>();
  Subcommand command(
      root, "nodes",
      "List the bad nodes that runs remember for each other, or forget some of them");
  command.option("SPEC", options->spec.file,
                 "Spec that names the file of bad nodes (health.known_bad)");
  command
      .option("--runs", options->spec.runs,
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
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return nodes(cli, *options); }; });
}

}  // namespace dlrun
