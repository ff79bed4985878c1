#pragma once
// Declares Cli, which every command receives, and the functions that add the commands to the
// command line. run_cli() runs one command line.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/runs/tools.h"
#include "launcher/submit/context.h"
#include "launcher/view/exit_code.h"

namespace CLI {
class App;
}

namespace dlrun {

/// The environment, the folder and the terminal of this process. `env` has the host of -H as
/// DLRUN_HOST. Commands pass a Cli on as the Context of a submission.
struct Cli : Context {
  /// True if the stream is a terminal, NO_COLOR is empty or unset, and TERM is neither dumb nor
  /// unset. If a dlrun on another machine has started this one over ssh, and there is no terminal
  /// here, the values are those of the other dlrun.
  bool colour_out = false, colour_err = false;
  std::string commit;  ///< the result of built_commit()
};

/// The action of a parsed command line. Returns the exit code. An error with neither
/// a message nor diagnostics means an interruption or a closed output; these need no message.
using Action = std::function<Result<int>(Cli&)>;

/// Adds one command to the tree. Sets `action` when the command line calls this command.
using AddCommand = void (*)(CLI::App& root, Action& action);

void add_submit(CLI::App& root, Action& action);
void add_render(CLI::App& root, Action& action);
void add_check(CLI::App& root, Action& action);
void add_interactive(CLI::App& root, Action& action);
void add_run(CLI::App& root, Action& action);
void add_ls(CLI::App& root, Action& action);
void add_status(CLI::App& root, Action& action);
void add_top(CLI::App& root, Action& action);
void add_report(CLI::App& root, Action& action);
void add_logs(CLI::App& root, Action& action);
void add_wait(CLI::App& root, Action& action);
void add_cancel(CLI::App& root, Action& action);
void add_rm(CLI::App& root, Action& action);
void add_prune(CLI::App& root, Action& action);
void add_du(CLI::App& root, Action& action);
void add_schema(CLI::App& root, Action& action);
void add_explain(CLI::App& root, Action& action);
void add_nodes(CLI::App& root, Action& action);
void add_notify(CLI::App& root, Action& action);
void add_track(CLI::App& root, Action& action);
void add_attach(CLI::App& root, Action& action);
void add_forward(CLI::App& root, Action& action);
void add_ssh_config(CLI::App& root, Action& action);
void add_diff(CLI::App& root, Action& action);
void add_resubmit(CLI::App& root, Action& action);
void add_man(CLI::App& root, Action& action);
void add_sweep(CLI::App& root, Action& action);
void add_site(CLI::App& root, Action& action);
void add_init(CLI::App& root, Action& action);
void add_doctor(CLI::App& root, Action& action);
void add_container(CLI::App& root, Action& action);
void add_bench(CLI::App& root, Action& action);
void add_completion(CLI::App& root, Action& action);
void add_host(CLI::App& root, Action& action);
void add_pull(CLI::App& root, Action& action);

/// Builds the tree of commands. If `only` names a command, builds only this command, unless it
/// needs the whole tree (man, completion). has_options = false: no word of the command line starts
/// with '-'. The tree of one command then has only positionals and required options, because
/// building options takes most of the time.
[[nodiscard]] std::unique_ptr<CLI::App> make_app(Action& action, std::string_view only = {},
                                                 bool has_options = true);

/// Parses argv, runs the command and prints errors to stderr. Returns the exit code. main() only
/// sets up the process and calls this function.
[[nodiscard]] int run_cli(Cli& cli, int argc, const char* const* argv);

/// Returns the hashes of the agent, the trainer and the modules that were built with this dlrun.
[[nodiscard]] ToolSet built_tools();

/// Returns the commit of the source code of this dlrun, such as "2074bc41d3f0", or
/// "2074bc41d3f0-dirty" if some files differed from the commit. Returns "" if the build did not
/// know the commit.
[[nodiscard]] std::string built_commit();

}  // namespace dlrun
