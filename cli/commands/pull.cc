// `dlrun pull`: copies the files of a run from a host to this machine.

#include "launcher/remote/pull.h"

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/remote_command.h"
#include "cli/select.h"
#include "cli/terminal/print.h"
#include "common/interrupt.h"
#include "common/json_read.h"
#include "common/text.h"
#include "launcher/remote/bootstrap.h"

namespace dlrun {
namespace {

struct PullOptions {
  std::string run, pattern, to;
};

/// Returns the state of the run as the host's `status --json` prints it.
Result<nlohmann::ordered_json> status_on_host(const Cli& cli, const Ssh& ssh,
                                              const std::string& run) {
  constexpr std::size_t kLargest = 16U << 20U;
  RemoteRequest request;
  request.nonce = random_hex(16);
  request.argv = {"status", run, "--json"};
  DLRUN_TRY_ASSIGN(auto process, start_on_host(ssh, program_there(cli, ssh.host()), request));
  std::string out, err;
  const auto into = [](std::string& text) {
    return [&text](std::string_view bytes) {
      text += bytes;
      return text.size() <= kLargest;
    };
  };
  const Interrupt interrupt;
  DLRUN_TRY_ASSIGN(const auto end, process.finish(into(out), into(err), interrupt));
  if (end.interrupted != 0) return fail(Errc::kInterrupted, "");
  DLRUN_TRY(check_end({}, ssh, end));
  auto json = json_read::object_of(out);
  if (json) return std::move(*json);
  if (end.exit_code == kExitNotFound)
    return fail(Errc::kNotFound, "{}: {}", ssh.host().name, trim(err));
  return fail(Errc::kInvalid, "{}: the host's answer about the run is no JSON object: {}",
              ssh.host().name, trim(err).substr(0, 1000));
}

Result<int> pull_run(const Cli& cli, const PullOptions& options) {
  const std::string name = cli.env.get_or("DLRUN_HOST", "");
  if (name.empty())
    return fail(Errc::kUsage, "pull copies from a host: dlrun -H HOST pull {}",
                printable(options.run));
  DLRUN_TRY_ASSIGN(const auto ssh, ssh_of(cli, name));
  DLRUN_TRY(ssh.open());
  DLRUN_TRY(ensure_installed(cli, ssh, false));
  DLRUN_TRY_ASSIGN(const auto status, status_on_host(cli, ssh, options.run));
  DLRUN_TRY_ASSIGN(const auto folder, folder_name_of(json_read::text(status, "run")));
  PullRequest request;
  request.host = name;
  request.from = json_read::text(status, "path");
  request.to = cli.current_dir / (options.to.empty() ? folder : options.to);
  request.pattern = options.pattern;
  request.program = cli.bin_dir / "dlrun";
  DLRUN_TRY_ASSIGN(const auto files, pull(request, ssh.env()));
  for (const std::string& file : files) print(cli, "{}\n", file);
  print_note(cli, fmt::format("{} file{} copied to {}", files.size(), files.size() == 1 ? "" : "s",
                              request.to.lexically_normal().string()));
  return kExitOk;
}

}  // namespace

void add_pull(CLI::App& root, Action& action) {
  auto options = std::make_shared<PullOptions>();
  Subcommand command(
      root, "pull", "Copy the files of a run from the host of -H to this machine; deletes nothing");
  command.option("RUN", options->run, kRunHelp).required();
  command.option("PATTERN", options->pattern,
                 "Copy only files that match, such as '*.pt' or 'ckpt/**' (all files)");
  command.option("--to", options->to, "Folder to copy to (a folder with the name of the run)")
      .type_name("DIR");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return pull_run(cli, *options); }; });
}

}  // namespace dlrun
