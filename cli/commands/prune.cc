// `dlrun prune`: deletes all runs that ended long ago, or only their logs, traces, profiles and
// stacks of hung ranks.

#include <memory>

#include "cli/ask_and_clean_up.h"
#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "launcher/cleanup/cleanup_execution.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

struct PruneOptions {
  std::string older_than, runs_folder;
  bool keeps_checkpoints = false;
  CleanupOptions cleanup;
};

Result<int> prune(Cli& cli, const PruneOptions& options) {
  PruneRequest request;
  const auto age = parse_age(options.older_than);
  if (!age) return within("--older-than", age.error());
  request.older_than = std::chrono::seconds(*age);
  if (!options.runs_folder.empty()) request.folder = cli.current_dir / options.runs_folder;
  if (options.keeps_checkpoints) request.parts = RunParts::kDiagnostics;
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(const auto plan, plan_pruning(cli.env, inspector, request));
  bool has_unknown_state = false;
  for (const KeptRun& kept : plan.kept) {
    print_note(cli, kept.why.message);
    has_unknown_state = has_unknown_state || kept.why.code == Errc::kUnavailable;
  }
  if (plan.deletions.empty()) print_note(cli, nothing_to_prune_text(plan, options.older_than));
  DLRUN_TRY_ASSIGN(const int cleanup_code, ask_and_clean_up(cli, inspector, plan, options.cleanup));
  return cleanup_code == kExitOk && has_unknown_state ? kExitUnavailable : cleanup_code;
}

}  // namespace

void add_prune(CLI::App& root, Action& action) {
  auto options = std::make_shared<PruneOptions>();
  Subcommand command(root, "prune", "Delete the runs that ended long ago; asks on a terminal");
  command
      .required_option(
          "--older-than", options->older_than,
          "Delete runs that ended longer ago than this: 30d, 12h, 2w; the units are s, m "
          "(minutes), h, d and w")
      .type_name("AGE");
  command.flag(
      "--keep-checkpoints", options->keeps_checkpoints,
      "Delete only the diagnostic files: logs, traces, profiles and stacks of hung ranks; keep "
      "the checkpoints, the record, the code and all files that dlrun did not write");
  // `--runs "$FOLDER"` with an unset variable must not mean all runs.
  command.option("--runs", options->runs_folder, "Delete only runs in this folder")
      .type_name("DIR")
      .not_empty();
  add_cleanup_options(command, options->cleanup);
  command.calls(prune, options, action);
}

}  // namespace dlrun
