// `dlrun ls`: lists the runs, newest first.

#include <memory>

#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "common/text.h"
#include "launcher/runs/notice_relay.h"
#include "launcher/view/run_list.h"

namespace dlrun {
namespace {

struct LsOptions {
  bool json = false, all = false;
  std::size_t limit = 20;
  std::string runs_folder, name, states, newer_than, older_than;

  [[nodiscard]] bool has_filter() const {
    return !name.empty() || !states.empty() || !newer_than.empty() || !older_than.empty();
  }
};

Result<int> list(Cli& cli, const LsOptions& options) {
  ListRequest request;
  if (!options.runs_folder.empty()) request.folder = cli.current_dir / options.runs_folder;
  if (!options.all) request.limit = options.limit;
  request.wants_json = options.json;
  request.name = options.name;
  request.states = options.states;
  request.newer_than = options.newer_than;
  request.older_than = options.older_than;
  DLRUN_TRY_ASSIGN(const auto list, list_runs(cli.env, known_servers(cli), request));
  if (list.added_count > 0)
    print_note(cli, fmt::format("{} run{} of {} added to the index", list.added_count,
                                list.added_count == 1 ? "" : "s", options.runs_folder));
  for (const std::string& sentence : list.unreadable) print_warning(cli, sentence);
  if (options.json) {
    print_json(list.json);
  } else if (list.rows.empty()) {
    print_note(cli, options.has_filter()          ? "no run fits these filters"
                    : options.runs_folder.empty() ? "no runs yet"
                                                  : "no runs in " + printable(options.runs_folder));
  } else {
    std::vector<std::vector<std::string>> rows = {{"RUN", "JOB", "STATE", "AGE", "PROGRESS"}};
    for (const ListedRun& run : list.rows)
      rows.push_back({run.id, run.job, run.state, run.age, run.summary});
    print(cli, table(rows));
  }
  if (list.hidden_count > 0)
    print_note(cli, fmt::format("{} older run{} not shown; --all shows all runs", list.hidden_count,
                                list.hidden_count == 1 ? " is" : "s are"));
  relay_notices_in_background(cli.env, list.runs_with_events);
  if (list.unreachable_reason.empty()) return kExitOk;
  print_error(cli, fmt::format("states with {} are only the last known ones; the reason: {}",
                               options.json ? "`last_known`" : "'?'", list.unreachable_reason));
  return kExitUnavailable;
}

}  // namespace

void add_ls(CLI::App& root, Action& action) {
  auto options = std::make_shared<LsOptions>();
  Subcommand command(root, "ls", "List your runs, newest first");
  command.flag("-a,--all", options->all, "List all runs, not only the newest");
  command
      .option("-n,--limit", options->limit,
              "Number of runs to list (default: 20); 0 lists all runs")
      .type_name("N")
      .non_negative();
  command
      .option("--runs", options->runs_folder,
              "List the runs in this folder, and add missing ones to the index")
      .type_name("DIR");
  command
      .option("--name", options->name,
              "List the runs with this name, or with names that fit this pattern: 'mnist*'")
      .type_name("NAME");
  command
      .option("--state", options->states,
              "List the runs in these states, such as failed,timeout. The states: "
              "not_submitted, refused, pending, running, completed, failed, cancelled, timeout, "
              "unknown")
      .type_name("STATE");
  command
      .option("--newer-than", options->newer_than,
              "List the runs that were created less than this time ago: 7d, 12h, 2w")
      .type_name("AGE");
  command
      .option("--older-than", options->older_than,
              "List the runs that were created longer ago than this")
      .type_name("AGE");
  command.flag("--json", options->json, "Print a JSON array");
  command.calls(list, options, action);
}

}  // namespace dlrun
