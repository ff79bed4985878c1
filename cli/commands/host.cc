// `dlrun host`: lists the hosts of -H, and opens, closes and checks the connections to them.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/remote.h"
#include "cli/terminal/print.h"
#include "common/text.h"
#include "launcher/remote/host_program.h"
#include "launcher/remote/unanswered_submission.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

struct HostOptions {
  std::string verb, name;
  bool json = false;
};

Result<int> list_hosts(const Cli& cli, bool json) {
  const auto dirs = config_folders(cli);
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows = {{"HOST", "SSH", "ROOT", "CONNECTION"}};
  for (const std::string& name : host_names(dirs)) {
    const auto host = read_host(name, dirs);
    if (!host) {
      print_diagnostics(cli, host.error().diagnostics.all());
      if (!host.error().message.empty()) print_warning(cli, host.error().message);
      continue;
    }
    DLRUN_TRY_ASSIGN(const auto ssh, Ssh::of_host(*host, cli.env, false));
    const bool is_open = ssh.is_open();
    Json entry;
    entry["name"] = name;
    entry["ssh"] = host->ssh_destination;
    entry["root"] = host->root;
    entry["connected"] = is_open;
    entry["file"] = host->source;
    all.push_back(std::move(entry));
    rows.push_back({name, host->ssh_destination, host->root, is_open ? "open" : ""});
  }
  if (json) {
    print_json(all);
  } else {
    print(cli, table(rows));
    print_note(cli, fmt::format("to add a host, write its file {}",
                                printable((dirs.front() / "hosts" / "NAME.yaml").string())));
  }
  return kExitOk;
}

/// Connects, copies dlrun to the host if this is necessary, starts dlrun there, and prints the
/// version of that dlrun. Also prints the submissions that the host has not answered.
Result<int> check_host(const Cli& cli, const Ssh& ssh) {
  const HostFile& host = ssh.host();
  DLRUN_TRY(ssh.open());
  DLRUN_TRY_ASSIGN(const bool is_new, ensure_installed(cli, ssh, true));
  DLRUN_TRY_ASSIGN(const auto answer, ask_host(cli, ssh, {"--version"}));
  print(cli, "{}  ssh {}, dlrun {} in {}{}\n", styled(Style::kBold, host.name),
        host.ssh_destination, answer.end.version, program_on_host(cli, host),
        is_new ? " (copied now)" : "");
  for (const std::string& command : unanswered_commands(cli.env, host.name))
    print(cli, "  submission without an answer: dlrun {}\n", command);
  return kExitOk;
}

Result<int> run_verb(Cli& cli, const HostOptions& options) {
  if (options.verb == "list") return list_hosts(cli, options.json);
  if (options.verb != "login" && options.verb != "check" && options.verb != "forget")
    return fail(Errc::kUsage, "host {}: expected list, check, login or forget",
                printable(options.verb));
  if (options.json)
    return fail(Errc::kUsage,
                "--json is an option of `host list`; it cannot be combined with `host {}`",
                options.verb);
  const std::string name = options.name.empty() ? cli.env.get_or("DLRUN_HOST", "") : options.name;
  if (name.empty()) return fail(Errc::kUsage, "host {}: HOST is required", options.verb);
  DLRUN_TRY_ASSIGN(const auto ssh, ssh_for_command(cli, name));
  if (options.verb == "check") return check_host(cli, ssh);
  if (options.verb == "login") {
    if (ssh.host().master == MasterUse::kNone)
      return fail(Errc::kUsage, "{}: its file says `master: none`, so no connection stays open",
                  name);
    DLRUN_TRY(ssh.open(true));
    print_note(cli, fmt::format("the connection to {} is open; it closes after {} without use",
                                name, ssh.host().persist));
    return kExitOk;
  }
  DLRUN_TRY_ASSIGN(const bool was_open, ssh.close());
  print_note(cli, was_open ? fmt::format("the connection to {} is closed", name)
                           : fmt::format("no connection to {} was open", name));
  return kExitOk;
}

}  // namespace

void add_host(CLI::App& root, Action& action) {
  auto options = std::make_shared<HostOptions>();
  Subcommand command(root, "host",
                     "List the hosts of -H, or check, open (login) or close (forget) the "
                     "connection to one of them");
  command
      .option("VERB", options->verb,
              "list (all hosts), check (connect and start dlrun there), login (open a connection; "
              "ssh may ask for a password or a code), forget (close it)")
      .required();
  command.option("HOST", options->name, "Name of a host: its file is hosts/NAME.yaml");
  command.flag("--json", options->json, "list: print a JSON array");
  command.calls(run_verb, options, action);
}

}  // namespace dlrun
