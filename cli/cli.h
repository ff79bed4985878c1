#pragma once
// The state of the process when dlrun started. It is read once, and every command receives it.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/runs/tools.h"

namespace CLI {
class App;
}

namespace dlrun {

struct Cli {
  Env env;
  std::filesystem::path current_dir;
  /// The folder of the dlrun binary: bin/ of an installation or a build tree.
  std::filesystem::path bin_dir;
  std::vector<std::string> argv;
  ToolSet tools;
  /// True on a terminal, unless NO_COLOR is set or TERM=dumb.
  bool colour_out = false, colour_err = false;
};

/// dlrun's exit codes. Documented and stable.
enum ExitCode : int {
  kExitOk = 0,
  kExitFault = 1,        ///< dlrun itself failed: a full disk, an I/O error, a bug
  kExitUsage = 2,        ///< wrong usage, or an invalid spec
  kExitRefused = 3,      ///< Slurm refused
  kExitUnavailable = 4,  ///< the controller did not answer
  kExitRunFailed = 5,    ///< the run failed
  kExitNotFound = 6,     ///< no such file, run, job or program
  kExitInterrupted = 130,
  /// Standard output's reader has gone; shells report an end by SIGPIPE with this code.
  kExitReaderLeft = 141,
};
/// Returns dlrun's exit code for an error.
[[nodiscard]] int exit_code_of(Errc code);

/// The action of a parsed command line. Returns the exit code. An Error with an empty message has
/// been printed already.
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
void add_schema(CLI::App& root, Action& action);
void add_explain(CLI::App& root, Action& action);
void add_nodes(CLI::App& root, Action& action);
void add_attach(CLI::App& root, Action& action);
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

/// Builds the tree of commands. If `only` names a command, builds only that command.
[[nodiscard]] std::unique_ptr<CLI::App> make_app(Action& action, std::string_view only = {});

/// Parses argv, runs the command and prints errors to stderr. Returns the exit code. main() does
/// only the set-up of the process besides.
[[nodiscard]] int run_cli(Cli& cli, int argc, const char* const* argv);

/// Returns the hashes of the agent and the trainer that were built together with this dlrun.
[[nodiscard]] ToolSet built_tools();

}  // namespace dlrun
