// `dlrun forward`: makes ports of a running job's node available on this machine.

#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/terminal/print.h"
#include "launcher/forward/forwarding.h"
#include "launcher/runs/tools.h"
#include "launcher/submit/attach.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {
namespace {

struct ForwardOptions {
  std::string run, node;
  std::vector<std::string> ports;
  bool socket = false, any_user = false;
};

/// Returns the name of this machine, on which the user is logged in.
std::string login_host() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

/// Prints the events of a forwarding.
class ForwardPrinter final : public ForwardEvents {
 public:
  ForwardPrinter(const Cli& cli, const std::vector<LocalListener>& listeners, std::string node)
      : cli_(cli), listeners_(listeners), node_(std::move(node)) {}

  void on_ready() override {
    for (const LocalListener& listener : listeners_) {
      if (listener.path.empty()) {
        print(cli_, "http://127.0.0.1:{} is port {} of {}\n", listener.local_port,
              listener.node_port, node_);
        continue;
      }
      print(cli_, "{} is port {} of {}\n", listener.path, listener.node_port, node_);
      print_note(cli_, fmt::format("on your laptop: ssh -N -L {0}:{1} {2}, then open "
                                   "http://127.0.0.1:{0}",
                                   listener.node_port, listener.path, login_host()));
    }
    flush_output();
    print_note(cli_, "the forwarding ends with Ctrl-C or with the job");
  }
  void on_slurm_message(std::string_view line) override { print_note(cli_, line); }
  void on_waiting(std::uint16_t port) override {
    print_note(cli_, fmt::format("nothing listens on port {} of {} yet; the connection waits", port,
                                 node_));
  }
  void on_answered(std::uint16_t port) override {
    print_note(cli_, fmt::format("port {} of {} answers now", port, node_));
  }
  void on_shortage(int error) override {
    print_warning(cli_, error == EMFILE
                            ? "this process has as many open files as it may have, so further "
                              "connections wait; `ulimit -n` shows the limit"
                            : fmt::format("this machine cannot open another connection now, so "
                                          "further connections wait: {}",
                                          errno_text(error)));
  }
  void on_given_up(std::uint16_t port, std::string_view reason) override {
    print_note(cli_,
               fmt::format("a connection to port {} of {} is closed: {}", port, node_, reason));
  }

 private:
  const Cli& cli_;
  const std::vector<LocalListener>& listeners_;
  std::string node_;
};

Result<int> forward(Cli& cli, const ForwardOptions& options) {
  DLRUN_TRY_ASSIGN(const auto ports, parse_forwarded_ports(options.ports));
  DLRUN_TRY_ASSIGN(const auto run, find_run_to_enter(cli, options.run));
  DLRUN_TRY_ASSIGN(const auto status, RunInspector(cli.env, known_servers(cli)).inspect(run.path));
  DLRUN_TRY_ASSIGN(const auto target, find_target(cli.env, run, status, options.node));
  const auto runs_dir = runs_folder_of(run.path);
  if (const auto warning = warning_about_runs_folder(runs_dir)) print_warning(cli, *warning);
  DLRUN_TRY_ASSIGN(const auto agent, copy_agent_beside_runs(cli, runs_dir));
  DLRUN_TRY_ASSIGN(const auto listeners,
                   listen_for(cli.env, ports, options.socket,
                              [&cli](const std::string& text) { print_warning(cli, text); }));
  ForwardPrinter printer(cli, listeners.all, target.node);
  const auto relay = relay_command(target, agent.string(), options.any_user);
  DLRUN_TRY_ASSIGN(const auto end, forward_ports(relay, cli.env, listeners.all, printer));
  if (end.signal != 0) return kExitInterrupted;
  DLRUN_TRY_ASSIGN(const auto state,
                   state_after_forwarding(cli.env, known_servers(cli), run, target.node, end));
  print_note(cli, fmt::format("{}: is {}; the forwarding has ended", run.id, word(state)));
  return kExitOk;
}

}  // namespace

void add_forward(CLI::App& root, Action& action) {
  auto options = std::make_shared<ForwardOptions>();
  Subcommand command(root, "forward",
                     "Open ports of a running job's node on this machine: Jupyter, TensorBoard, a "
                     "server");
  command.option("RUN", options->run, kRunHelp).required();
  command
      .option("PORT", options->ports,
              "PORT on the node, or PORT:LOCAL with the port on this machine (0: any free one)")
      .required();
  command.option("--node", options->node, "Node of the job to use (default: the first node)")
      .type_name("NAME");
  command.flag(
      "--socket", options->socket,
      "Listen on a unix socket that only you can open (default if you logged in by ssh, unless "
      "you give a local port as PORT:LOCAL)");
  command.flag("--any-user", options->any_user,
               "Connect to programs of other users of the node, too (default: only to yours and "
               "root's)");
  command.calls(forward, options, action);
}

}  // namespace dlrun
