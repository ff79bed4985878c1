// `dlrun top`: shows a running run live on the whole terminal. Prints the state of the run once if
// there is no terminal or a dumb one, if the run has ended, and with --once or --json.

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/spec_options.h"
#include "cli/terminal/full_screen.h"
#include "cli/terminal/print.h"
#include "cli/terminal/top_view.h"
#include "launcher/runs/notice_relay.h"
#include "launcher/view/run_feed.h"

namespace dlrun {
namespace {

constexpr std::chrono::milliseconds kDrawEvery{1000};
constexpr std::size_t kPipeColumns = 100'000;  // a pipe has no width

struct TopOptions {
  std::string run = kNewestRun;
  bool json = false, once = false;
  std::optional<std::size_t> max_ranks;
};

/// Shows the run until the user quits. Returns true if a signal ended the view.
Result<bool> show_live(const Cli& cli, RunOverview first, std::size_t max_ranks) {
  DLRUN_TRY_ASSIGN(auto screen, FullScreen::open());
  const RunFeed feed(cli.env, known_servers(cli), std::move(first));
  for (;;) {
    const TerminalSize size = screen.size();
    screen.draw(top_lines(*feed.overview(), {size.columns, size.rows, max_ranks}), cli.colour_out);
    const auto event = screen.wait(kDrawEvery);
    if (event == FullScreen::Event::kQuit) return false;
    if (event == FullScreen::Event::kTerminate) return true;
  }
}

Result<int> show(Cli& cli, const TopOptions& options) {
  DLRUN_TRY_ASSIGN(const auto run, select_run(cli, options.run));
  DLRUN_TRY_ASSIGN(auto overview, read_overview(cli.env, known_servers(cli), run));
  const bool has_ended = is_inactive(overview.status.state) && !overview.status.may_be_outdated;
  const bool is_terminal = is_output_terminal();
  const bool is_dumb = cli.env.get_or("TERM", "dumb") == "dumb";  // accepts no control sequences
  if (options.json) {
    print_json(overview_json(overview, options.max_ranks.value_or(0)));
  } else if (is_terminal && is_input_terminal() && !options.once && !has_ended && !is_dumb) {
    DLRUN_TRY_ASSIGN(const bool ended_by_signal,
                     show_live(cli, std::move(overview), options.max_ranks.value_or(0)));
    relay_notices_in_background(cli.env, {run});
    return ended_by_signal ? kExitInterrupted : kExitOk;
  } else {
    const std::size_t columns = is_terminal ? terminal_size(STDOUT_FILENO).columns : kPipeColumns;
    for (const auto& line : top_lines(overview, {columns, 0, options.max_ranks.value_or(0)}))
      print(cli, "{}\n", line);
  }
  relay_notices_in_background(cli.env, {run});
  return is_unreachable(overview.status) ? kExitUnavailable : kExitOk;
}

}  // namespace

void add_top(CLI::App& root, Action& action) {
  auto options = std::make_shared<TopOptions>();
  Subcommand command(
      root, "top",
      "Watch a run: progress, throughput, loss, resource use of every rank, slow ranks");
  command.option("RUN", options->run, kOptionalRunHelp);
  command
      .option("-n,--ranks", options->max_ranks,
              "Show at most N ranks (the most unusual ones first), or at most N points of a sweep "
              "(default and 0: as many as fit; 20 if the state is printed once; all with --json)")
      .type_name("N")
      .non_negative();
  command.flag("--once", options->once,
               "Print the state once and exit (the default without a terminal, on a dumb one, and "
               "for a run that has ended)");
  command.flag("--json", options->json, "Print a JSON object");
  command.calls(show, options, action);
}

}  // namespace dlrun
