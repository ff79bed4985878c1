// `dlrun logs`: prints the output of the job, of some of its ranks, or of each point of a sweep;
// with -f, follows the output until the run ends.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/follow.h"
#include "cli/run_argument.h"
#include "cli/spec_options.h"
#include "cli/terminal/log_output.h"
#include "cli/terminal/print.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/view/line_labels.h"
#include "launcher/view/run_log.h"
#include "launcher/view/waiting_lines.h"

namespace dlrun {
namespace {

struct LogsOptions {
  std::string run = kNewestRun;
  bool follow = false, is_raw = false;
  std::string rank_list;  ///< --rank; empty: the log of the job
  std::vector<std::int64_t> ranks;
  std::optional<std::int64_t> attempt;
  std::string component;  ///< the component of the ranks; empty: the job has one program
  std::optional<std::size_t> tail;
};

/// Prints the log with `label` before each line. Returns false if the log is empty.
Result<bool> print_lines(const Cli& cli, LogReader& reader, const LogsOptions& options,
                         const std::string& label) {
  if (options.tail) reader.start_at_tail(*options.tail);
  LogOutput output(options.is_raw, cli.colour_out);
  LineLabeler labeler(label);
  for (bool has_output = false;; has_output = true) {
    DLRUN_TRY_ASSIGN(const auto bytes, reader.read_more());
    const std::string shown = bytes.empty() ? labeler.finish() : labeler.label_lines(bytes);
    if (!shown.empty() && !output.print(shown)) return fail(Errc::kIo, "");  // reported at exit
    if (bytes.empty()) return has_output;
  }
}

/// Prints the log of one rank, or of the job, with `label` before each line. Returns false if the
/// log is empty.
Result<bool> print_one_log(const Cli& cli, RunInspector& inspector, const IndexEntry& run,
                           const LogsOptions& options, std::optional<std::int64_t> rank,
                           const std::string& label) {
  DLRUN_TRY_ASSIGN(auto reader,
                   open_run_log(inspector, run, {rank, options.attempt, options.component}));
  return print_lines(cli, reader, options, label);
}

/// Prints a note that the run has no output yet, if it has not ended.
void explain_empty_log(const Cli& cli, RunInspector& inspector, const IndexEntry& run) {
  const auto status = inspector.inspect(run.path);
  if (status && !is_inactive(status->state))
    print_note(cli, fmt::format("{}: no output yet; the run is {}", run.id, word(status->state)));
}

/// Call if the log of the job is empty. Prints the error file of the job if that file has text;
/// otherwise calls explain_empty_log().
Result<int> print_instead_of_log(const Cli& cli, RunInspector& inspector, const IndexEntry& run,
                                 const LogsOptions& options) {
  auto errors = error_log_with_text(run);
  if (!errors) {
    explain_empty_log(cli, inspector, run);
    return kExitOk;
  }
  print_note(cli, fmt::format("{}: the output is empty; the errors of the job are in {}", run.id,
                              printable(errors->path().string())));
  DLRUN_TRY(print_lines(cli, *errors, options, ""));
  return kExitOk;
}

/// Prints the log of the job, or of the chosen ranks. If several ranks are chosen, prints a note
/// about a rank without a log and goes on.
Result<int> print_log(const Cli& cli, const IndexEntry& run, const LogsOptions& options) {
  RunInspector inspector(cli.env, known_servers(cli));
  const bool expects_output = !options.tail || *options.tail > 0;
  if (options.ranks.empty()) {
    DLRUN_TRY_ASSIGN(const bool has_output,
                     print_one_log(cli, inspector, run, options, std::nullopt, ""));
    if (has_output || !expects_output) return kExitOk;
    return print_instead_of_log(cli, inspector, run, options);
  }
  const bool is_single_rank = options.ranks.size() == 1;
  bool any_output = false, any_missing = false;
  for (const std::int64_t rank : options.ranks) {
    const auto printed = print_one_log(cli, inspector, run, options, rank,
                                       is_single_rank ? "" : label_of_rank(rank));
    const bool is_missing = !printed && printed.error().code == Errc::kNotFound;
    if (!printed && (is_single_rank || !is_missing)) return tl::unexpected(printed.error());
    if (is_missing) print_note(cli, printed.error().message);
    any_missing = any_missing || is_missing;
    any_output = any_output || (printed && *printed);
  }
  if (!any_output && !any_missing && expects_output) explain_empty_log(cli, inspector, run);
  return kExitOk;
}

/// Prints the end of each point's log under the point's name: --tail lines, or ten. Prints a note
/// about a point without a log. Fails with kUsage if options.follow is set.
Result<int> print_logs_of_points(const Cli& cli, const IndexEntry& run, LogsOptions options) {
  if (options.follow)
    return fail(Errc::kUsage, "{0}: is a sweep; -f follows one point: dlrun logs -f {0}/0", run.id);
  DLRUN_TRY_ASSIGN(const auto points, single_runs_of(run));
  constexpr std::size_t kDefaultTail = 10;
  if (!options.tail) options.tail = kDefaultTail;
  for (const IndexEntry& point : points) {
    print(cli, "==> {} <==\n", point.id);
    flush_output();
    const auto printed = print_log(cli, point, options);
    if (!printed && printed.error().code != Errc::kNotFound) return printed;
    if (!printed) print_note(cli, printed.error().message);
  }
  return kExitOk;
}

Result<int> logs(Cli& cli, const LogsOptions& given) {
  LogsOptions options = given;
  DLRUN_TRY_ASSIGN(auto chosen,
                   parse_chosen_ranks(options.rank_list, options.attempt, options.component));
  DLRUN_TRY_ASSIGN(const auto run, select_run(cli, options.run));
  if (is_sweep(run.path) && chosen.is_all)
    return fail(Errc::kUsage, "{0}: is a sweep; --rank all works with one point, such as {0}/0",
                run.id);
  options.ranks = std::move(chosen.ranks);
  if (chosen.is_all) {
    DLRUN_TRY_ASSIGN(options.ranks, ranks_with_log(run, options.attempt, options.component));
  }
  if (is_sweep(run.path)) return print_logs_of_points(cli, run, options);
  const auto owner = options.follow ? foreign_owner(run.path) : std::nullopt;
  if (owner)
    print_note(cli, fmt::format("{}: {}: the existing log is printed, but not followed", run.id,
                                describe_foreign_run(*owner)));
  if (!options.follow || owner) return print_log(cli, run, options);
  RunInspector inspector(cli.env, known_servers(cli));
  const Interrupt interrupt;
  WatchOptions watch;
  watch.ranks = options.ranks;
  watch.attempt = options.attempt;
  watch.component = options.component;
  watch.tail = options.tail;
  DLRUN_TRY_ASSIGN(const auto status,
                   follow_run(cli, inspector, run, watch, interrupt, options.is_raw));
  print_note(cli, end_text_with_runs(cli.env, run, status));
  return kExitOk;
}

}  // namespace

void add_logs(CLI::App& root, Action& action) {
  auto options = std::make_shared<LogsOptions>();
  Subcommand command(root, "logs", "Print the output of a run");
  command.option("RUN", options->run, kOptionalRunHelp);
  command.flag("-f,--follow", options->follow, "Follow the output until the run ends");
  command
      .option("--rank", options->rank_list,
              "Print the output of these ranks instead of the output of the job: 2, or 0,4-7, or "
              "all; the lines of several ranks are labelled")
      .type_name("LIST");
  command
      .option("--component", options->component, "With --rank: component to which the rank belongs")
      .type_name("NAME");
  command
      .option("--attempt", options->attempt,
              "With --rank: number of the attempt, counted from 0 (default: the latest)")
      .type_name("K")
      .non_negative();
  command.flag("--raw", options->is_raw,
               "Print every byte unchanged, even on a terminal; without this option dlrun escapes "
               "control sequences other than colours");
  command
      .option("-n,--tail", options->tail,
              "Print only the last N lines of the existing output (default: all lines; 10 for each "
              "point of a sweep)")
      .type_name("N")
      .non_negative();
  command.calls(logs, options, action);
}

}  // namespace dlrun
