#pragma once
// The side of a host: what `dlrun --remote WORD` does before the command line takes over.

#include <filesystem>
#include <optional>
#include <string>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"
#include "launcher/remote/request.h"

namespace dlrun {

/// The three descriptors of the connection.
struct FarStreams {
  int in = 0, out = 1, err = 2;
};

/// The next step of main().
struct FarRole {
  /// Set in the process that waits for the command: it ends with this code.
  std::optional<int> exit_code;
  /// Set in the process that is the command.
  RemoteRequest request;
  std::filesystem::path folder;
};

/// Serves the request of a word ("-": the word is the first line of the input). Prints the marker,
/// and starts the command in a process group of its own, with the streams' output. Ends the group
/// when the input ends: SIGTERM, SIGKILL after ten seconds. Returns twice, like fork().
///
/// kPipe does not return: the other program takes this process. kTerminal returns the command's
/// role at once.
[[nodiscard]] Result<FarRole> serve(std::string_view word, const Env& env,
                                    const FarStreams& streams);

/// Returns a root with ~ and $NAME replaced as the host's environment has them. Fails with kInvalid
/// and names the variable that is not set.
[[nodiscard]] Result<std::filesystem::path> expand_root(std::string_view root, const Env& env);

}  // namespace dlrun
