#include "cli/ask_and_clean_up.h"

#include <iostream>

#include "cli/command_line.h"
#include "cli/terminal/print.h"
#include "cli/terminal/questions.h"
#include "launcher/cleanup/cleanup_execution.h"

namespace dlrun {
namespace {

/// Asks whether the runs may be deleted. Fails if there is no terminal. If the answer is no, prints
/// a note, and fails without a message, because no is a valid answer.
Result<> ask(const Cli& cli, const CleanupPlan& plan) {
  if (!is_input_terminal() || !is_error_terminal()) {
    return fail(Errc::kUsage,
                "nothing was deleted: dlrun asks first, and there is no terminal to ask on. --yes "
                "deletes without a question");
  }
  const bool is_yes = ask_yes_or_no(cleanup_question(plan), std::cin,
                                    [&](const Text& line) { print_aside(cli, line); });
  if (is_yes) return {};
  print_note(cli, "nothing was deleted");
  return fail(Errc::kInterrupted, "");
}

}  // namespace

void add_cleanup_options(Subcommand& command, CleanupOptions& options) {
  command.flag("-y,--yes", options.skips_question, "Delete without a question");
  command.flag("--dry-run", options.is_dry_run, "List what would be deleted; delete nothing");
  command.flag("--json", options.is_json, "Print a JSON object");
}

Result<int> ask_and_clean_up(const Cli& cli, RunInspector& inspector, const CleanupPlan& plan,
                             const CleanupOptions& options) {
  const bool shows_plan = !options.is_json && !plan.deletions.empty();
  if (shows_plan && (options.is_dry_run || !options.skips_question)) {
    print(cli, table(cleanup_rows(plan)));
    flush_output();
  }
  if (options.is_dry_run) {
    if (options.is_json) print_json(cleanup_json(plan, dry_cleanup(plan)));
    print_note(cli, dry_run_text(plan));
    return kExitOk;
  }
  if (!plan.deletions.empty() && !options.skips_question) DLRUN_TRY(ask(cli, plan));
  const CleanupListener listener{[&](const std::string& text) {
                                   if (!options.is_json) print(cli, "{}\n", text);
                                 },
                                 [&](const std::string& text) { print_note(cli, text); },
                                 [&](const Error& error) { print_error(cli, error.message); }};
  const CleanupResult result = clean_up(cli.env, inspector, plan, listener);
  if (options.is_json) print_json(cleanup_json(plan, result));
  return result.failure ? exit_code_of(*result.failure) : kExitOk;
}

}  // namespace dlrun
