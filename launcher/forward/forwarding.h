#pragma once
// This machine's end of a relay into a job: accepts clients and carries their connections through
// one step of the job.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/forward/local_listener.h"

namespace dlrun {

/// Learns how a forwarding goes. Called by the forwarding thread only.
class ForwardEvents {
 public:
  ForwardEvents() = default;
  ForwardEvents(const ForwardEvents&) = delete;
  ForwardEvents& operator=(const ForwardEvents&) = delete;
  virtual ~ForwardEvents() = default;

  /// The relay runs on the node, and clients are served.
  virtual void ready() = 0;
  /// Slurm has said something before the relay runs, such as that the step must wait.
  virtual void said(std::string_view line) = 0;
  /// Nothing listens on the port of the node; a client waits. Once until answered().
  virtual void waiting(std::uint16_t port) = 0;
  /// The port that was waited for is answered.
  virtual void answered(std::uint16_t port) = 0;
  /// A client has waited too long and was let go.
  virtual void gave_up(std::uint16_t port, std::string_view reason) = 0;
};

/// The end of a forwarding.
struct Forwarded {
  bool was_ready = false;
  int signal = 0;     ///< the signal that ended the forwarding; 0: the relay ended by itself
  int exit_code = 0;  ///< of the relay's command
  std::string words;  ///< the last words on its standard error
};

/// Starts the relay with argv and serves the clients of the listeners until SIGINT, SIGTERM or
/// SIGHUP arrives, or until the relay ends. No process of argv is left. env: the caller's.
/// Fails with kNotFound if there is no such program, and with kInvalid if it is no relay.
[[nodiscard]] Result<Forwarded> forward_ports(const std::vector<std::string>& argv, const Env& env,
                                              const std::vector<LocalListener>& listeners,
                                              ForwardEvents& events);

/// Starts argv on this process's standard input and output, and waits for its end. SIGINT, SIGTERM
/// and SIGHUP give it two seconds to end with its input, before it gets SIGTERM. said: gets the
/// lines of its standard error until then. Fails with kNotFound if there is no such program.
[[nodiscard]] Result<Forwarded> lend_streams(const std::vector<std::string>& argv, const Env& env,
                                             const std::function<void(std::string_view)>& said);

}  // namespace dlrun
