#pragma once
// The host's side of `dlrun -H`: the steps of `dlrun --remote WORD` before it parses the command
// line that the request contains.

#include <filesystem>
#include <optional>
#include <string>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"
#include "launcher/remote/request.h"
#include "launcher/submit/context.h"

namespace dlrun {

/// The three descriptors of the connection.
struct HostStreams {
  int in = 0, out = 1, err = 2;
};

/// The outcome of serve_request(): the request whose command this process must run, or the exit
/// code with which this process must end.
struct RequestOutcome {
  /// The exit code of this process, which has nothing left to do. nullopt: this process must run
  /// the command of the request.
  std::optional<int> exit_code{};
  RemoteRequest request{};
  std::filesystem::path folder{};  ///< where the command starts
  /// The file with request.git_state; empty: there is none.
  std::filesystem::path git_state_file{};
};

/// Serves the request in `word` ("-": the first line of the input is the word). The request's mode
/// decides how:
/// - kTerminal: returns immediately, without a marker and without a fork.
/// - kPipe: prints marker_of(). The program of the request then replaces this process.
/// - kMirror: prints marker_of(), locks the mirror (the copy of the code on the host), sends
///   mirror_answer(), waits for the frame kGo, and forks. If the input ends before kGo, returns
///   without a fork.
/// - kCommand: prints marker_of() and forks.
///
/// After a fork, returns immediately in the child, which has a process group of its own and must
/// run the command. Returns in the parent when the command has ended. When the input ends, the
/// parent ends the child's group: with SIGTERM, and with SIGKILL ten seconds later.
[[nodiscard]] Result<RequestOutcome> serve_request(std::string_view word, const Env& env,
                                                   const HostStreams& streams);

/// Gives this process the folder, the variables and the arguments of the request's command.
void apply_request(const RequestOutcome& outcome, Context& context);

/// Expands RemoteRequest::root: replaces "~" or "~/" at its start by the value of HOME, and $NAME
/// and ${NAME} everywhere in it by their values. env: the host's environment. Fails with kInvalid
/// if a variable is not set or is empty, if a '$' has no name or no closing brace, and if the
/// result is not an absolute path.
[[nodiscard]] Result<std::filesystem::path> expand_root(std::string_view root, const Env& env);

}  // namespace dlrun
