// `dlrun logs`: prints the output of the job or of one rank; with -f, follows it until the run
// ends.

#include <memory>
#include <optional>

#include "cli/command_line.h"
#include "cli/follow.h"
#include "cli/select.h"
#include "cli/spec_options.h"
#include "cli/terminal/log_output.h"
#include "cli/terminal/print.h"
#include "common/interrupt.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/view/run_log.h"
#include "launcher/view/run_text.h"

namespace dlrun {
namespace {

struct LogsOptions {
  std::string run = kNewestRun;
  bool follow = false, is_raw = false;
  std::optional<std::int64_t> rank, attempt;
  std::optional<std::size_t> tail;
};

Result<int> print_log(const Cli& cli, const IndexEntry& run, const LogsOptions& options) {
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(auto reader, open_log(inspector, run, options.rank, options.attempt));
  if (options.tail) reader.start_at_tail(*options.tail);
  LogOutput output(options.is_raw, cli.colour_out);
  for (;;) {
    DLRUN_TRY_ASSIGN(const auto bytes, reader.read_more());
    if (bytes.empty()) return kExitOk;
    if (!output.print(bytes)) return fail(Errc::kIo, "");  // reported at exit
  }
}

/// Prints the end of each point's log under the point's name.
Result<int> print_logs_of_points(const Cli& cli, const IndexEntry& run, LogsOptions options) {
  if (options.follow)
    return fail(Errc::kUsage, "{0}: is a sweep; -f follows one point: dlrun logs -f {0}/0", run.id);
  DLRUN_TRY_ASSIGN(const auto points, runs_of(run));
  constexpr std::size_t kLines = 10;
  if (!options.tail) options.tail = kLines;
  for (const IndexEntry& point : points) {
    print(cli, "==> {} <==\n", point.id);
    flush_output();
    const auto printed = print_log(cli, point, options);
    if (!printed && printed.error().code != Errc::kNotFound) return printed;
    if (!printed) print_note(cli, printed.error().message);
  }
  return kExitOk;
}

Result<int> logs(Cli& cli, const LogsOptions& options) {
  if (options.attempt && !options.rank)
    return fail(Errc::kUsage,
                "--attempt chooses among a rank's logs: give --rank too; the job's own log holds "
                "all attempts");
  DLRUN_TRY_ASSIGN(const auto run, select_run(cli, options.run));
  if (is_sweep(run.path)) return print_logs_of_points(cli, run, options);
  const auto owner = options.follow ? foreign_owner(run.path) : std::nullopt;
  if (owner)
    print_note(cli, fmt::format("{}: {}: the existing log is printed, but not followed", run.id,
                                describe(*owner)));
  if (!options.follow || owner) return print_log(cli, run, options);
  RunInspector inspector(cli.env, known_servers(cli));
  const Interrupt interrupt;
  WatchOptions watch;
  watch.rank = options.rank;
  watch.attempt = options.attempt;
  watch.tail = options.tail;
  DLRUN_TRY_ASSIGN(const auto status,
                   follow_run(cli, inspector, run, watch, interrupt, options.is_raw));
  print_note(cli, end_text(run, status));
  return kExitOk;
}

}  // namespace

void add_logs(CLI::App& root, Action& action) {
  auto options = std::make_shared<LogsOptions>();
  Subcommand command(root, "logs", "Print the output of a run");
  command.option("RUN", options->run, kOptionalRunHelp);
  command.flag("-f,--follow", options->follow, "Follow the output until the run ends");
  command
      .option("--rank", options->rank,
              "Print the output of this rank instead of the output of the job")
      .type_name("N")
      .non_negative();
  command
      .option("--attempt", options->attempt,
              "With --rank: number of the attempt (default: the latest)")
      .type_name("K")
      .non_negative();
  command.flag("--raw", options->is_raw,
               "Print every byte unchanged on a terminal, too; without this option dlrun escapes "
               "control sequences other than colours");
  command.option("-n,--tail", options->tail, "Print only the last N lines of the existing output")
      .type_name("N")
      .non_negative();
  command.calls(logs, options, action);
}

}  // namespace dlrun
