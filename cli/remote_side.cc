#include "cli/remote_side.h"

#include <unistd.h>

#include <vector>

#include "cli/terminal/print.h"
#include "cli/terminal/remote_output.h"
#include "common/text.h"
#include "launcher/remote/bootstrap.h"
#include "launcher/remote/far_side.h"
#include "launcher/remote/remote_process.h"
#include "launcher/remote/ssh.h"
#include "launcher/submit/places.h"
#include "launcher/submit/token_claim.h"

namespace dlrun {

int run_remote_side(Cli& cli, std::string_view word) {
  auto role = serve(word, cli.env, {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO});
  if (!role) {
    print_error(cli, role.error().message);
    return exit_code_of(role.error().code);
  }
  if (role->exit_code) return *role->exit_code;
  const RemoteRequest& request = role->request;
  if (::chdir(role->folder.c_str()) == 0) cli.current_dir = role->folder;
  cli.env.set("PWD", cli.current_dir.string());
  cli.env.unset("DLRUN_HOST");
  cli.env.unset(kTokenVariable);
  if (!request.token.empty()) cli.env.set(kTokenVariable, request.token);
  cli.env.unset(kGitStateVariable);
  if (!role->git_state.empty()) cli.env.set(kGitStateVariable, role->git_state.string());
  if (request.mode != RemoteMode::kTerminal) {
    cli.colour_out = request.colour_out;
    cli.colour_err = request.colour_err;
  }
  std::vector<const char*> argv{"dlrun"};
  for (const std::string& one : request.argv) argv.push_back(one.c_str());
  cli.argv.assign(argv.begin(), argv.end());
  return run_cli(cli, static_cast<int>(argv.size()), argv.data());
}

int run_rsync_shell(Cli& cli, const std::string& name, std::vector<std::string> argv) {
  const auto run = [&]() -> Result<int> {
    DLRUN_TRY_ASSIGN(auto host, read_host(name, config_folders(cli)));
    // rsync owns the terminal.
    DLRUN_TRY_ASSIGN(const auto ssh, Ssh::of_host(std::move(host), cli.env, false));
    DLRUN_TRY(ssh.open());
    RemoteRequest request;
    request.mode = RemoteMode::kPipe;
    request.nonce = random_hex(16);
    request.argv = std::move(argv);
    const Interrupt interrupt;
    DLRUN_TRY_ASSIGN(auto process, start_on_host(ssh, program_there(cli, ssh.host()), request));
    process.forward_input(RemoteProcess::Input::kRaw);
    RemoteOutput output(cli);
    DLRUN_TRY_ASSIGN(
        const auto end,
        process.finish([&](std::string_view bytes) { return output.out(bytes); },
                       [&](std::string_view bytes) { return output.err(bytes); }, interrupt));
    if (!end.has_begun) return fail(Errc::kUnavailable, "{}", trim(end.printed));
    return end.exit_code;
  };
  const auto code = run();
  if (code) return *code;
  print_error(cli, code.error().message);
  return exit_code_of(code.error().code);
}

}  // namespace dlrun
