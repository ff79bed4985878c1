// `dlrun sweep`: lists a sweep's points, their values and their results.

#include <memory>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "launcher/runs/ownership.h"
#include "launcher/view/sweep_table.h"

namespace dlrun {
namespace {

struct SweepOptions {
  std::optional<std::string> run;  ///< nullopt: the newest sweep
  SweepTableRequest table;
};

/// Prints the table, the number of points in each state, and hints about missing results or points.
void print_table(const Cli& cli, const IndexEntry& run, const SweepTable& sweep) {
  print(cli, table(sweep_rows(sweep)));
  if (sweep.hidden_count > 0)
    print_note(cli, fmt::format("{} more point{} not shown", sweep.hidden_count,
                                sweep.hidden_count == 1 ? " is" : "s are"));
  if (sweep.lacks_results) {
    print_note(
        cli,
        "no point has reported a result. The program of rank 0 reports one by writing a JSON "
        "object to the file whose path is in DLRUN_PROGRESS: {\"step\": 100, \"loss\": 0.3} while "
        "it runs, {\"final\": true, \"loss\": 0.2} at its end");
  }
  print_note(cli, fmt::format("{}: {}", run.id, sweep.overall.detail));
  if (const auto owner = foreign_owner(run.path))
    print_note(cli, fmt::format("{}: {}", run.id, describe_foreign_run(*owner)));
  else if (sweep.overall.sweep->not_submitted > 0)
    print_note(
        cli, fmt::format("`dlrun resubmit {}` submits the points that were not submitted", run.id));
}

/// Returns the run of the argument RUN; without this argument, the newest sweep.
Result<IndexEntry> chosen_sweep(const Cli& cli, const std::optional<std::string>& argument) {
  if (argument) return select_run(cli, *argument);
  DLRUN_TRY_ASSIGN(const auto index, RunIndex::of_user(cli.env));
  return newest_sweep(index);
}

Result<int> tabulate(Cli& cli, const SweepOptions& options) {
  DLRUN_TRY_ASSIGN(const auto run, chosen_sweep(cli, options.run));
  SweepTableRequest request = options.table;
  request.run_argument = options.run.value_or(run.id);
  DLRUN_TRY_ASSIGN(const auto sweep, sweep_table(cli.env, known_servers(cli), run, request));
  if (options.table.wants_json) {
    print_json(sweep.json);
  } else {
    print_table(cli, run, sweep);
  }
  if (sweep.unreachable_reason.empty()) return kExitOk;
  print_error(cli, fmt::format("states with {} are only the last known ones; the reason: {}",
                               options.table.wants_json ? "`last_known`" : "'?'",
                               sweep.unreachable_reason));
  return kExitUnavailable;
}

}  // namespace

void add_sweep(CLI::App& root, Action& action) {
  auto options = std::make_shared<SweepOptions>();
  Subcommand command(root, "sweep", "List the points of a sweep and their results, best first");
  command.option(
      "RUN", options->run,
      "The sweep: a name, an id or its first characters, a job id, a path, or `last` (default: the "
      "newest sweep)");
  command
      .option("--sort", options->table.sort,
              "What to sort by: a result (test_accuracy, loss, ...), a swept key, or `point`, the "
              "number of the point")
      .type_name("NAME");
  command.flag("--ascending", options->table.is_ascending,
               "List the smallest value first (the default for losses, errors, times and point)");
  command.flag("--descending", options->table.is_descending,
               "List the largest value first (the default for all other results and keys)");
  command.option("-n,--limit", options->table.limit, "Number of points to list (default: all)")
      .type_name("N")
      .non_negative();
  command.flag("--json", options->table.wants_json, "Print a JSON array");
  command.calls(tabulate, options, action);
}

}  // namespace dlrun
