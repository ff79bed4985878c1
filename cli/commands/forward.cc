// `dlrun forward`: makes ports of a running job's node available on this machine.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "cli/command_line.h"
#include "cli/select.h"
#include "cli/terminal/print.h"
#include "common/text.h"
#include "launcher/forward/forwarding.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/status.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/runs/tools.h"
#include "launcher/submit/attach.h"
#include "launcher/submit/places.h"

namespace dlrun {
namespace {

struct ForwardOptions {
  std::string run, node;
  std::vector<std::string> ports;
  bool socket = false, any_user = false;
};

std::string host_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

/// The listening sockets, and the folder of those that are unix sockets.
struct Listeners {
  std::optional<SocketFolder> folder;
  std::vector<LocalListener> all;
};

/// Listens for all ports. Users who logged in by ssh have their browser on another machine, and
/// share this machine with other users. They therefore get unix sockets, except for a port with
/// LOCAL.
Result<Listeners> listen_for(const Cli& cli, const ForwardOptions& options,
                             const std::vector<ForwardedPort>& ports) {
  Listeners listeners;
  const bool is_remote = cli.env.has("SSH_CONNECTION");
  for (const ForwardedPort& port : ports) {
    if (options.socket && port.local)
      return fail(
          Errc::kUsage,
          "--socket: {}:{} names a port of this machine, and a unix socket has none; give {}",
          port.port, *port.local, port.port);
    if (!options.socket && (port.local || !is_remote)) {
      DLRUN_TRY_ASSIGN(auto listener, listen_on_loopback(port));
      if (is_remote) {
        print_warning(cli, fmt::format("every user of this machine can connect to 127.0.0.1:{}; "
                                       "without :{} dlrun uses a socket that only you can open",
                                       listener.local, *port.local));
      }
      listeners.all.push_back(std::move(listener));
      continue;
    }
    if (!listeners.folder) {
      DLRUN_TRY_ASSIGN(auto folder, SocketFolder::make(cli.env));
      listeners.folder.emplace(std::move(folder));
    }
    DLRUN_TRY_ASSIGN(auto listener, listen_in(*listeners.folder, port.port));
    listeners.all.push_back(std::move(listener));
  }
  return listeners;
}

/// Prints the events of a forwarding.
class ForwardPrinter final : public ForwardEvents {
 public:
  ForwardPrinter(const Cli& cli, const std::vector<LocalListener>& listeners, std::string node)
      : cli_(cli), listeners_(listeners), node_(std::move(node)) {}

  void on_ready() override {
    for (const LocalListener& listener : listeners_) {
      if (listener.path.empty()) {
        print(cli_, "http://127.0.0.1:{} is port {} of {}\n", listener.local, listener.port, node_);
        continue;
      }
      print(cli_, "{} is port {} of {}\n", listener.path, listener.port, node_);
      print_note(cli_, fmt::format("on your laptop: ssh -N -L {0}:{1} {2}, then open "
                                   "http://127.0.0.1:{0}",
                                   listener.port, listener.path, host_name()));
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
  void on_full() override {
    print_warning(cli_,
                  "this process has as many open files as it may have, so further connections "
                  "wait; `ulimit -n` shows the limit");
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

/// Prints or returns the reason why the relay has ended by itself. The end of the job is no
/// failure.
Result<int> explain_end(const Cli& cli, const IndexEntry& run, const std::string& node,
                        const Forwarded& end) {
  // Slurm ends the steps of a job shortly before it reports the end of the job.
  constexpr int kTries = 20;
  constexpr std::chrono::milliseconds kPause{250};
  for (int i = 0; i < kTries && end.was_ready; ++i) {
    if (i > 0) std::this_thread::sleep_for(kPause);
    const auto status = RunInspector(cli.env, known_servers(cli)).inspect(run.path);
    if (!status || !is_over(*status)) continue;
    print_note(cli,
               fmt::format("{}: is {}; the forwarding has ended", run.id, word(status->state)));
    return kExitOk;
  }
  const std::string_view messages = trim(end.messages);
  return fail(Errc::kRefused, "{}: {} on {} (srun ended with code {}){}{}", run.id,
              end.was_ready ? "the forwarding was ended" : "Slurm started no step", node,
              end.exit_code, messages.empty() ? "" : ": ", messages);
}

/// Parses the ports. Fails with kUsage for a wrong port, and for one that is given twice.
Result<std::vector<ForwardedPort>> parse_ports(const std::vector<std::string>& texts) {
  std::vector<ForwardedPort> ports;
  for (const auto& text : texts) {
    DLRUN_TRY_ASSIGN(const auto port, parse_forwarded_port(text));
    if (std::find(ports.begin(), ports.end(), port) != ports.end())
      return fail(Errc::kUsage, "port {} is given twice", text);
    ports.push_back(port);
  }
  return ports;
}

Result<int> forward(Cli& cli, const ForwardOptions& options) {
  DLRUN_TRY_ASSIGN(const auto ports, parse_ports(options.ports));
  DLRUN_TRY_ASSIGN(const auto run, select_run(cli, options.run));
  DLRUN_TRY(require_own(run.id, run.path, "entered"));
  if (is_sweep(run.path))
    return fail(Errc::kUsage, "{0}: is a sweep; name one point, such as {0}/0", run.id);
  DLRUN_TRY_ASSIGN(const auto status, RunInspector(cli.env, known_servers(cli)).inspect(run.path));
  DLRUN_TRY_ASSIGN(const auto target, job_target(cli.env, run, status, options.node));
  const auto runs_dir = runs_folder_of(run.path);
  if (const auto warning = warning_about_place(runs_dir)) print_warning(cli, *warning);
  DLRUN_TRY_ASSIGN(const auto agent, stage_agent(cli, runs_dir));
  DLRUN_TRY_ASSIGN(const auto listeners, listen_for(cli, options, ports));
  ForwardPrinter printer(cli, listeners.all, target.node);
  const auto step = relay_step(target, agent.string(), options.any_user);
  DLRUN_TRY_ASSIGN(const auto end, forward_ports(step, cli.env, listeners.all, printer));
  if (end.signal != 0) return kExitInterrupted;
  return explain_end(cli, run, target.node, end);
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
      "Listen on a unix socket that only you can open (default if you logged in by ssh and "
      "give no LOCAL)");
  command.flag("--any-user", options->any_user,
               "Connect to programs of other users of the node, too (default: only to yours and "
               "root's)");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return forward(cli, *options); }; });
}

}  // namespace dlrun
