// `dlrun render`: prints the job script, which a user can then read or edit.

#include "launcher/plan/render.h"

#include <algorithm>
#include <memory>

#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "launcher/submit/rendered_script.h"
#include "launcher/view/cost_text.h"

namespace dlrun {
namespace {

struct RenderOptions {
  SpecOptions spec;
  std::string output;
  bool force = false;
  std::optional<std::size_t> point;
};

/// Writes the text to the file of --output, or to standard output.
Result<int> print_or_write(const Cli& cli, const RenderOptions& options, const std::string& text) {
  if (options.output.empty() || options.output == "-") {
    print_document(text);
    return kExitOk;
  }
  DLRUN_TRY(write_script(cli.current_dir / options.output, text, options.force));
  return kExitOk;
}

/// Prints or writes the script of the sweep's first array. In the job, each task of the array runs
/// the script of its point.
Result<int> render_sweep(const Cli& cli, const RenderOptions& options, const Experiment& prepared) {
  DLRUN_TRY_ASSIGN(const auto sweep, sweep_to_render(cli, prepared));
  if (sweep.arrays.size() > 1)
    print_note(cli, fmt::format("the first of {} arrays; they differ in their #SBATCH lines",
                                sweep.arrays.size()));
  if (sweep.chooses_points_later) {
    print_note(cli, fmt::format("a search: {}; --point 0 prints the script of an example point",
                                points_and_cost_text(sweep)));
    return print_or_write(cli, options, script_with_spec(prepared, sweep.arrays.front().script));
  }
  print_note(
      cli,
      fmt::format(
          "a sweep of {}; --point N prints the script of one point, and `dlrun submit` with the "
          "spec writes the scripts of all points",
          points_and_cost_text(sweep)));
  return print_or_write(cli, options, script_with_spec(prepared, sweep.arrays.front().script));
}

Result<int> render(Cli& cli, const RenderOptions& options) {
  TerminalReporter reporter(cli);
  DLRUN_TRY_ASSIGN(const auto prepared, prepare_spec_or_point(cli, reporter, options.spec,
                                                              Target::kSlurm, options.point));
  if (prepared.is_sweep()) return render_sweep(cli, options, prepared);
  DLRUN_TRY_ASSIGN(const auto script, render_script(prepared.plan));
  const auto& after = prepared.plan.after;
  if (!std::all_of(after.begin(), after.end(),
                   [](const PlannedDependency& one) { return one.is_job_id(); }))
    print_note(
        cli,
        "the key `after` lists runs. `dlrun submit`, with the spec or with this script, makes "
        "the job wait for the jobs of these runs; plain sbatch does not");
  const std::string text = script_with_spec(prepared, script);
  // If the agent or the trainer cannot be installed, dlrun only warns: the printed script is
  // correct, but cannot run before they are installed.
  const bool is_agentless = prepared.plan.agent.empty();
  if (auto staged = is_agentless ? Result<>()
                                 : prepare_runs_folder(cli, reporter, prepared.plan.runs_dir,
                                                       prepared.plan.uses_trainer());
      !staged) {
    print_warning(cli, fmt::format("{} of the script could not be installed in the runs folder: {}",
                                   prepared.plan.uses_trainer() ? "dlrun-agent or dlrun-trainer"
                                                                : "dlrun-agent",
                                   staged.error().message));
  }
  return print_or_write(cli, options, text);
}

}  // namespace

void add_render(CLI::App& root, Action& action) {
  auto options = std::make_shared<RenderOptions>();
  Subcommand command(root, "render", "Print the job script, which plain `sbatch` accepts");
  add_spec_options(command, options->spec);
  command.option("-o,--output", options->output, "File to write instead of standard output")
      .type_name("FILE");
  command.flag("--force", options->force,
               "Overwrite the file even if it is an edited script, or no script of dlrun");
  command
      .option("--point", options->point, "Point of a sweep whose script to print, counted from 0")
      .type_name("N")
      .non_negative();
  command.calls(render, options, action);
}

}  // namespace dlrun
