// `dlrun ssh-config`: prints a block for ~/.ssh/config with which ssh reaches a running job. The
// ProxyCommand of the block is `dlrun ssh-config --connect`.

#include "launcher/forward/ssh_config.h"

#include <unistd.h>

#include <memory>

#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "launcher/forward/ssh_session.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/tools.h"
#include "launcher/submit/attach.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {
namespace {

struct SshConfigOptions {
  std::string run, node;
  bool connect = false;
};

/// Prints the block, and notes about its use. Fails with kNotFound if the node has no sshd.
Result<int> print_config(const Cli& cli, const IndexEntry& run, const AttachTarget& target,
                         const SshKeys& keys, const std::filesystem::path& agent,
                         const SshConfigOptions& options) {
  TerminalReporter reporter(cli);
  DLRUN_TRY_ASSIGN(const auto plan, plan_of_run(cli, reporter, run.path));
  if (const auto warning = warning_about_runs_folder(runs_folder_of(run.path)))
    print_warning(cli, *warning);
  DLRUN_TRY(check_sshd(cli.env, target, agent));
  const SshHost host = ssh_host_of(run, target.node, options.node, owner_of(::geteuid()).name,
                                   cli.bin_dir / "dlrun");
  DLRUN_TRY_ASSIGN(const auto block, ssh_config_text(host, keys));
  print_document(block);
  print_note(cli, fmt::format("this block belongs in ~/.ssh/config; then use: ssh {}", host.name));
  if (!plan.container.empty() || !plan.enter_script.words.empty()) {
    print_note(cli, fmt::format("the ranks run in a container, and ssh sessions run outside it, on "
                                "the node; to enter the container: dlrun attach {}{}",
                                run.id, options.node.empty() ? "" : " --node " + options.node));
  }
  return kExitOk;
}

/// Serves as the ProxyCommand: standard input and output are pipes or a socket of ssh. Returns when
/// the connection ends.
Result<int> connect(const Cli& cli, const IndexEntry& run, const RunStatus& status,
                    const AttachTarget& target, const SshKeys& keys,
                    const std::filesystem::path& agent) {
  TerminalReporter reporter(cli);
  DLRUN_TRY_ASSIGN(const auto plan, plan_of_run(cli, reporter, run.path));
  const auto print_line = [&cli](std::string_view line) { print_note(cli, line); };
  DLRUN_TRY_ASSIGN(const auto end,
                   connect_to_sshd(cli.env, plan, target, keys, agent, runs_folder_of(run.path),
                                   start_folder_of_run(run, status, plan.folder), print_line));
  return end.signal != 0 ? kExitInterrupted : end.exit_code;
}

Result<int> ssh_config(Cli& cli, const SshConfigOptions& options) {
  if (options.connect && is_input_terminal()) {
    return fail(Errc::kUsage,
                "--connect: ssh calls this command as its ProxyCommand; without --connect, dlrun "
                "prints the block for ~/.ssh/config");
  }
  DLRUN_TRY_ASSIGN(const auto run, find_run_to_enter(cli, options.run));
  DLRUN_TRY_ASSIGN(const auto status, RunInspector(cli.env, known_servers(cli)).inspect(run.path));
  DLRUN_TRY_ASSIGN(const auto target,
                   options.connect ? find_target_and_cpu_count(cli.env, run, status, options.node)
                                   : find_target(cli.env, run, status, options.node));
  DLRUN_TRY_ASSIGN(const auto agent, copy_agent_beside_runs(cli, runs_folder_of(run.path)));
  DLRUN_TRY_ASSIGN(const auto keys, ensure_ssh_keys(cli.env, run.path, ssh_host_name(run.id, "")));
  return options.connect ? connect(cli, run, status, target, keys, agent)
                         : print_config(cli, run, target, keys, agent, options);
}

}  // namespace

void add_ssh_config(CLI::App& root, Action& action) {
  auto options = std::make_shared<SshConfigOptions>();
  Subcommand command(
      root, "ssh-config",
      "Print a block for ~/.ssh/config with which ssh, scp and editors reach a running job's "
      "node, in the job's environment");
  command.option("RUN", options->run, kRunHelp).required();
  command.option("--node", options->node, "Node of the job to use (default: the first node)")
      .type_name("NAME");
  command.flag(
      "--connect", options->connect,
      "Connect standard input and output to the node's sshd; the ProxyCommand of the block "
      "calls dlrun with this option");
  command.calls(ssh_config, options, action);
}

}  // namespace dlrun
