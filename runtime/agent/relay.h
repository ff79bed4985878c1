#pragma once
// `dlrun-agent relay`: the part of `dlrun forward` that runs on a node of the job. It connects to
// ports of the node, and carries these connections over its standard input and output
// (runtime/RELAY.md).

#include "common/result.h"

namespace dlrun::agent {

struct RelayOptions {
  bool connects_to_any_user = false;  ///< also connects to programs of other users of the node
};

/// Serves until standard input ends, or until SIGTERM, SIGINT or SIGHUP. Fails with kInvalid if the
/// other end breaks the protocol, with kUnavailable if it sends nothing for kRelaySilence (20 s),
/// and with kIo if a system call fails.
[[nodiscard]] Result<> run_relay(const RelayOptions& options);

/// Makes a terminal pass every byte as it is; does nothing to other files. srun --unbuffered gives
/// a task a terminal as its standard output.
void make_raw(int fd);

}  // namespace dlrun::agent
