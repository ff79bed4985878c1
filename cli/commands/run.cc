// `dlrun run`: runs the job on this machine without Slurm. Lead runs in the foreground and
// starts the ranks. With --here, runs the job in the allocation of the shell.

#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/allocation_command.h"
#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/status_text.h"
#include "cli/terminal/terminal_reporter.h"
#include "launcher/plan/render.h"
#include "launcher/runs/provenance.h"
#include "launcher/runs/status.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/submit/checks.h"
#include "launcher/submit/local_run.h"
#include "launcher/view/status_json.h"

namespace dlrun {
namespace {

struct RunOptions {
  SpecOptions spec;
  bool json = false, dry_run = false, here = false;
  std::optional<std::size_t> point;
};

Result<int> run_locally(Cli& cli, const RunOptions& options) {
  if (options.here) {
    return run_in_allocation(cli, {options.spec,
                                   {std::nullopt, options.point, options.dry_run},
                                   {/*watch=*/true, options.json},
                                   /*is_foreground=*/true});
  }
  TerminalReporter reporter(cli);
  Provenance provenance(folder_of(cli, options.spec.file), cli.env, cli.argv, cli.tools.hash);
  DLRUN_TRY_ASSIGN(auto prepared,
                   prepare_chosen(cli, reporter, options.spec, Target::kLocal, options.point));
  if (prepared.is_sweep()) {
    return fail(Errc::kUsage,
                "{}: is a sweep of {} points, and this machine has no queue for them; --point N "
                "runs one of them here",
                prepared.loaded.file, count_points(prepared.loaded.spec.sweep));
  }
  const std::string script = render_local_script(prepared.plan);
  if (options.dry_run) {
    print_document(script);
    print_note(cli, "nothing was written or started (--dry-run)");
    return kExitOk;
  }
  RunInspector inspector(cli.env, known_servers(cli));
  Job job = job_of(std::move(prepared), script);
  DLRUN_TRY(check_job(cli, reporter, inspector, job, nullptr, CheckStage::kLocalRun));
  DLRUN_TRY_ASSIGN(const auto done, run_here(cli, reporter, job, provenance, options.json));
  const RunDirectory& run = done.run;
  const IndexEntry entry{run.id, run.name, run.path, run.created};
  DLRUN_TRY_ASSIGN(const auto status, inspector.inspect(run.path));
  if (options.json) print_json(status_json(entry, status));
  if (done.end.first_signal != 0) {
    print_note(cli, fmt::format("interrupted; the run {} was ended", run.id));
    return kExitInterrupted;
  }
  return print_end(cli, entry, status);
}

}  // namespace

void add_run(CLI::App& root, Action& action) {
  auto options = std::make_shared<RunOptions>();
  Subcommand command(
      root, "run",
      "Run the experiment on this machine, without Slurm, or in an allocation (--here)");
  add_spec_options(command, options->spec);
  command.flag("--here", options->here,
               "Run in the Slurm allocation of this shell, such as that of salloc");
  command.flag("--dry-run", options->dry_run, "Print the script; write and start nothing");
  command.option("--point", options->point, "Point of a sweep to run, counted from 0")
      .type_name("N")
      .non_negative();
  command.flag("--json", options->json,
               "Print a JSON object at the end, and the output of the ranks to standard error");
  command.calls(run_locally, options, action);
}

}  // namespace dlrun
