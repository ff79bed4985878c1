// `dlrun pull`: copies the files of a run from a host to this machine.

#include "launcher/remote/pull.h"

#include <memory>

#include "cli/command_line.h"
#include "cli/remote.h"
#include "cli/run_argument.h"
#include "cli/terminal/print.h"
#include "common/text.h"
#include "launcher/remote/host_program.h"

namespace dlrun {
namespace {

struct PullOptions {
  std::string run, pattern, to;
};

Result<int> pull_run(Cli& cli, const PullOptions& options) {
  const std::string name = cli.env.get_or("DLRUN_HOST", "");  // cli/app.cc stores -H there
  if (name.empty())
    return fail(Errc::kUsage, "pull copies from a host: dlrun -H HOST pull {}",
                printable(options.run));
  DLRUN_TRY_ASSIGN(const auto ssh, ssh_for_command(cli, name));
  DLRUN_TRY(ssh.open());
  DLRUN_TRY(ensure_installed(cli, ssh, false));
  DLRUN_TRY_ASSIGN(const auto found, find_run_on_host(cli, ssh, options.run));
  FilePull request;
  request.host = name;
  request.from = found.path;
  request.to = cli.current_dir / (options.to.empty() ? found.copy_name : options.to);
  request.pattern = options.pattern;
  request.own_program = cli.bin_dir / "dlrun";
  DLRUN_TRY_ASSIGN(const auto files, pull_files(request, ssh.env()));
  for (const std::string& file : files) print(cli, "{}\n", file);
  print_note(cli, fmt::format("{} file{} copied to {}", files.size(), files.size() == 1 ? "" : "s",
                              printable(request.to.lexically_normal().string())));
  return kExitOk;
}

}  // namespace

void add_pull(CLI::App& root, Action& action) {
  auto options = std::make_shared<PullOptions>();
  Subcommand command(
      root, "pull", "Copy the files of a run from the host of -H to this machine; deletes nothing");
  command.option("RUN", options->run, kRunHelp).required();
  command.option("PATTERN", options->pattern,
                 "Copy only files that match, such as '*.pt' or 'ckpt/**' (default: all files)");
  command
      .option("--to", options->to,
              "Folder to copy to (default: a folder here with the id of the run)")
      .type_name("DIR");
  command.calls(pull_run, options, action);
}

}  // namespace dlrun
