// `dlrun notify`: lists the unsent messages of runs, or sends them.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/terminal/print.h"
#include "launcher/runs/index.h"
#include "launcher/runs/notice_relay.h"
#include "launcher/runs/ownership.h"

namespace dlrun {
namespace {

struct NotifyOptions {
  std::vector<std::string> runs;
  bool relay = false, webhooks = false, json = false;
};

Result<std::vector<IndexEntry>> chosen_runs(const Cli& cli, const NotifyOptions& options) {
  std::vector<IndexEntry> runs;
  for (const std::string& text : options.runs) {
    DLRUN_TRY_ASSIGN(auto run, select_run(cli, text));
    DLRUN_TRY(
        require_own(run.id, run.path, options.relay ? "send its messages" : "list its messages"));
    runs.push_back(std::move(run));
  }
  if (!options.runs.empty()) return runs;
  DLRUN_TRY_ASSIGN(const auto index, RunIndex::of_user(cli.env));
  DLRUN_TRY_ASSIGN(auto listing, index.list());
  return std::move(listing.entries);
}

Result<int> relay(const Cli& cli, const std::vector<IndexEntry>& runs, SendBy by) {
  const auto report = relay_notices(cli.env, runs, by);
  print_note(cli, fmt::format("{} message{} sent", report.sent, report.sent == 1 ? "" : "s"));
  const auto unsent = report.waiting + report.unconfirmed + report.refused;
  if (unsent == 0) return kExitOk;
  print_error(
      cli, fmt::format(
               "{}{} message{} not sent or not confirmed; `dlrun notify` lists them{}",
               report.problem.empty() ? "" : report.problem + "; ", unsent, unsent == 1 ? "" : "s",
               by == SendBy::kWebhooks
                   ? ". `dlrun notify --relay RUN` also runs the command of a run (notify.command)"
                   : ""));
  return kExitFault;
}

Result<int> notify(Cli& cli, const NotifyOptions& options) {
  if (options.relay && options.json)
    return fail(Errc::kUsage, "--json lists messages; it cannot be combined with --relay");
  DLRUN_TRY_ASSIGN(const auto runs, chosen_runs(cli, options));
  if (options.relay) {
    // dlrun executes the command of a run only if the user has named the run.
    const bool runs_commands = !options.runs.empty() && !options.webhooks;
    return relay(cli, runs, runs_commands ? SendBy::kWebhooksAndCommands : SendBy::kWebhooks);
  }
  const auto notices = read_notices(runs);
  if (options.json) {
    print_json(notices_json(notices));
    return kExitOk;
  }
  if (notices.empty()) {
    print_note(cli, "no unsent messages");
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {{"RUN", "TIME", "EVENT", "WAY", "STATE"}};
  for (const NoticeOfRun& one : notices)
    rows.push_back({one.run, one.queued.notice.time.substr(0, 16), one.queued.notice.occasion,
                    one.queued.way, one.queued.state});
  print(cli, table(rows));
  return kExitOk;
}

}  // namespace

void add_notify(CLI::App& root, Action& action) {
  auto options = std::make_shared<NotifyOptions>();
  Subcommand command(root, "notify", "List the unsent messages of runs, or send them");
  command.option("RUN", options->runs, "Runs to look at (default: all of your runs)");
  command.flag("--relay", options->relay,
               "Send the messages that wait, each once; also run notify.command if RUN is given");
  command.flag("--webhooks", options->webhooks, "With --relay: do not run notify.command");
  command.flag("--json", options->json, "Print a JSON array");
  command.calls(notify, options, action);
}

}  // namespace dlrun
