#pragma once
// What every command gets: the world as it was when dlrun started, taken once.

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
  std::filesystem::path bin_dir;  ///< where dlrun lies, as bin/ of an installed or a build tree
  std::vector<std::string> argv;
  ToolSet tools;
  bool colour_out = false, colour_err = false;  ///< a terminal, and neither NO_COLOR nor TERM=dumb
};

/// dlrun's exit codes. Documented and stable.
enum ExitCode : int {
  kExitOk = 0,
  kExitFault = 1,  ///< dlrun itself could not go on: a full disk, an I/O error, a fault of its own
  kExitUsage = 2,  ///< usage, or an invalid spec
  kExitRefused = 3,      ///< Slurm said no
  kExitUnavailable = 4,  ///< the controller did not answer
  kExitRunFailed = 5,    ///< the run failed
  kExitNotFound = 6,     ///< no such file, run, job or program
  kExitInterrupted = 130,
  kExitReaderLeft =
      141,  ///< nobody reads standard output any more; as a shell calls an end by SIGPIPE
};
[[nodiscard]] int exit_code_of(Errc code);

/// What a parsed command line does. Returns the exit code; an Error with an empty message was told
/// already.
using Action = std::function<Result<int>(Cli&)>;

/// A command: adds itself to the tree, and sets action when it is the one that was called.
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

/// The whole tree of commands; where `only` is one of them, that one alone.
[[nodiscard]] std::unique_ptr<CLI::App> make_app(Action& action, std::string_view only = {});

/// main() but for the process: parses argv, acts, tells errors on stderr. Returns the exit code.
[[nodiscard]] int run_cli(Cli& cli, int argc, const char* const* argv);

/// What dlrun was linked with.
[[nodiscard]] ToolSet built_tools();

}  // namespace dlrun
