// `dlrun diff`: shows the changes to a script since dlrun rendered it.

#include <memory>

#include "cli/command_line.h"
#include "cli/select.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/files.h"
#include "common/sha256.h"
#include "common/subprocess.h"
#include "common/untrusted_file.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/plan/render.h"
#include "launcher/runs/carried_spec.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/submit/script_file.h"

namespace dlrun {
namespace {

struct DiffOptions {
  std::string what;
};

struct FoundScript {
  std::filesystem::path path;
  Links links = Links::kRefuse;  ///< kFollow for a file that the user named
};

/// Finds a script file, or the script that a run was submitted with.
Result<FoundScript> script_of(const Cli& cli, const std::string& what) {
  auto path = (cli.current_dir / what).lexically_normal();
  if (const auto text = read_file(path, kScriptLimitBytes); text && is_script(*text))
    return FoundScript{std::move(path), Links::kFollow};
  DLRUN_TRY_ASSIGN(const auto run, select_run(cli, what));
  return FoundScript{run.path / "job.sh"};
}

/// Returns the script that `dlrun render` writes for the spec. For a sweep, returns the script of
/// its first array.
Result<std::string> rendered_of(const Cli& cli, const Experiment& prepared) {
  TerminalReporter reporter(cli);
  if (!prepared.is_sweep()) return render_script(prepared.plan);
  DLRUN_TRY_ASSIGN(auto sweep, prepare_sweep(prepared, configured_array_size(cli.env)));
  return std::move(sweep.arrays.front().script);
}

/// Colours the lines like `diff --color`. Keeps tabs.
Text coloured_diff(std::string_view difference) {
  Text all;
  for (std::size_t number = 0; !difference.empty(); ++number) {
    const std::size_t end = std::min(difference.find('\n'), difference.size());
    const std::string_view line = difference.substr(0, end);
    const Style style = number < 2               ? Style::kBold
                        : line.starts_with("@@") ? Style::kCyan
                        : line.starts_with('+')  ? Style::kGreen
                        : line.starts_with('-')  ? Style::kRed
                                                 : Style::kNone;
    all.add("{}\n", Text::of_lines(line, style));
    difference.remove_prefix(std::min(end + 1, difference.size()));
  }
  return all;
}

Result<int> diff(Cli& cli, const DiffOptions& options) {
  DLRUN_TRY_ASSIGN(const auto found, script_of(cli, options.what));
  const std::filesystem::path* const path = &found.path;
  if (is_sweep(path->parent_path())) {
    print_note(
        cli,
        "nothing was edited: dlrun submitted the scripts that it rendered from spec.yaml, one "
        "for each point");
    return kExitOk;
  }
  DLRUN_TRY_ASSIGN(const auto text, read_untrusted(*path, kScriptLimitBytes, found.links));
  const auto carried = carried_spec(text);
  if (!carried) {
    std::error_code error;
    // The script of a sweep's point, or of its resubmission, contains no spec. Its directory has
    // resolved.yaml instead.
    if (std::filesystem::exists(path->parent_path() / "resolved.yaml", error)) {
      print_note(cli,
                 "nothing was edited: dlrun submitted the script that it rendered from the spec");
      return kExitOk;
    }
    return fail(Errc::kNotFound,
                "{}: carries no spec to compare with: `dlrun render` did not write it, or its last "
                "comment lines are gone",
                path->string());
  }
  DLRUN_TRY_ASSIGN(const auto prepared, prepare_carried(cli, *carried));
  DLRUN_TRY_ASSIGN(const auto rendered, rendered_of(cli, prepared));
  if (sha256_of_text(rendered) != carried->sha256) {
    print_warning(
        cli, fmt::format("dlrun {} renders the spec differently than dlrun {} did, or the site's "
                         "file has changed: some differences below are not edits",
                         DLRUN_VERSION, carried->dlrun));
  }
  Command command;
  command.argv = {"diff",         "-u", "--color=never", "--label", "as rendered", "--label",
                  path->string(), "-",  path->string()};
  command.stdin_text = rendered + carried_lines(text);
  command.env = cli.env;
  DLRUN_TRY_ASSIGN(const auto done, run_command(command));
  if (done.exit_code > 1) return fail(Errc::kIo, "diff: {}", done.err);
  if (done.exit_code == 0) print_note(cli, "nothing was edited");
  print(cli, coloured_diff(done.out));
  return kExitOk;
}

}  // namespace

void add_diff(CLI::App& root, Action& action) {
  auto options = std::make_shared<DiffOptions>();
  Subcommand command(root, "diff",
                     "Show what was edited in a rendered script, before or after its submission");
  command.option("RUN", options->what, "A run, or a script that `dlrun render` wrote").required();
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return diff(cli, *options); }; });
}

}  // namespace dlrun
