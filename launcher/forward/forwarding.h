#pragma once
// Accepts clients on this machine, and carries their connections into a job through one step of
// the job. The relay is the program of this step, `dlrun-agent relay` on the node.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/forward/local_listener.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"
#include "launcher/spec/known_servers.h"

namespace dlrun {

/// Receives the events of a forwarding, in the thread that called forward_ports().
class ForwardEvents {
 public:
  ForwardEvents() = default;
  ForwardEvents(const ForwardEvents&) = delete;
  ForwardEvents& operator=(const ForwardEvents&) = delete;
  virtual ~ForwardEvents() = default;

  /// The relay runs on the node, and clients are served.
  virtual void on_ready() = 0;
  /// Slurm has printed a line before the relay runs, for example that the step must wait.
  virtual void on_slurm_message(std::string_view line) = 0;
  /// A client waits because no program listens on the port of the node. Called once per port until
  /// on_answered() or on_given_up().
  virtual void on_waiting(std::uint16_t port) = 0;
  /// A program now listens on the port of on_waiting().
  virtual void on_answered(std::uint16_t port) = 0;
  /// A client cannot be accepted for lack of descriptors or memory. Further clients then wait.
  /// error: the errno of accept(): EMFILE, ENFILE, ENOBUFS or ENOMEM. Called once.
  virtual void on_shortage(int error) = 0;
  /// The relay has closed a client's connection that no program has accepted. reason: for people.
  virtual void on_given_up(std::uint16_t port, std::string_view reason) = 0;
};

/// How a forwarding, or a program of run_with_inherited_input_and_output(), ended.
struct ForwardingOutcome {
  bool was_ready = false;  ///< the relay ran on the node; false for any other program
  int signal = 0;          ///< the signal that this process got; 0: the command ended by itself
  int exit_code = 0;       ///< the exit code of the command
  std::string messages;    ///< the end of the command's standard error, at most about 4 KiB
};

/// Starts the relay with argv and serves the clients of the listeners until SIGINT, SIGTERM or
/// SIGHUP arrives, or until the relay ends. When this function returns, the process of argv has
/// ended. env: the caller's environment. Fails with kNotFound if there is no such program, with
/// kInvalid if the program is no relay, and with kIo if a system call fails.
[[nodiscard]] Result<ForwardingOutcome> forward_ports(const std::vector<std::string>& argv,
                                                      const Env& env,
                                                      const std::vector<LocalListener>& listeners,
                                                      ForwardEvents& events);

/// Returns the final state of the run. Call it after a forwarding that ended by itself. Waits up to
/// 5 s for the end of the run, and fails with kRefused and the messages of the relay if the run
/// does not end in this time. If the relay did not start, fails in the same way without waiting.
[[nodiscard]] Result<RunState> state_after_forwarding(const Env& env, const KnownServers& servers,
                                                      const IndexEntry& run,
                                                      const std::string& node,
                                                      const ForwardingOutcome& outcome);

/// Starts argv with the standard input and output of this process, and waits for the end of the
/// program. If this process gets SIGINT, SIGTERM or SIGHUP, or if the program closes its standard
/// error, the program has two seconds to end by itself; then it gets SIGTERM, and three seconds
/// later SIGKILL. on_message: called for each complete line of the program's standard error until
/// this process gets such a signal. Fails with kNotFound if there is no such program, and with kIo
/// if a system call fails.
[[nodiscard]] Result<ForwardingOutcome> run_with_inherited_input_and_output(
    const std::vector<std::string>& argv, const Env& env,
    const std::function<void(std::string_view)>& on_message);

}  // namespace dlrun
