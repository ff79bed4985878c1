#include "cli/remote.h"

#include <unistd.h>

#include "cli/terminal/print.h"
#include "cli/terminal/remote_output.h"
#include "cli/terminal/terminal_reporter.h"
#include "launcher/remote/host_side.h"

namespace dlrun {
namespace {

bool can_ask() {
  return is_error_terminal() || is_input_terminal();
}

int report_failure(const Cli& cli, const Error& error) {
  print_failure(cli, error);
  return exit_code_of(error.code);
}

}  // namespace

Result<Ssh> ssh_for_command(const Cli& cli, const std::string& host) {
  return ssh_of(cli, host, can_ask());
}

Result<std::optional<int>> run_host_call(const Cli& cli, const HostCall& call) {
  TerminalReporter reporter(cli);
  RemoteOutput output(cli);
  return run_on_host(
      {cli,
       reporter,
       output,
       {cli.colour_out, cli.colour_err, is_output_terminal() && is_input_terminal(), can_ask()}},
      call);
}

int serve_remote_call(Cli& cli, std::string_view word) {
  const auto outcome = serve_request(word, cli.env, {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO});
  if (!outcome) return report_failure(cli, outcome.error());
  if (outcome->exit_code) return *outcome->exit_code;  // nothing is left to do in this process
  apply_request(*outcome, cli);
  if (outcome->request.mode != RemoteMode::kTerminal) {
    cli.colour_out = outcome->request.colour_out;
    cli.colour_err = outcome->request.colour_err;
  }
  std::vector<const char*> argv;
  for (const std::string& argument : cli.argv) argv.push_back(argument.c_str());
  return run_cli(cli, static_cast<int>(argv.size()), argv.data());
}

int run_rsync_shell(const Cli& cli, const std::string& name, std::vector<std::string> argv) {
  RemoteOutput output(cli);
  const auto code = run_as_rsync_shell(cli, output, name, std::move(argv));
  output.finish();
  return code ? *code : report_failure(cli, code.error());
}

}  // namespace dlrun
