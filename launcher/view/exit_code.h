#pragma once
// dlrun's exit codes, and the code that follows from an error or from the state of a run.

#include "common/result.h"

namespace dlrun {

struct RunStatus;

/// dlrun's exit codes. They are documented and stable.
enum ExitCode : int {
  kExitOk = 0,
  kExitFault = 1,        ///< dlrun itself failed: a full disk, an I/O error, a bug
  kExitUsage = 2,        ///< wrong usage, or an invalid spec
  kExitRefused = 3,      ///< Slurm, or a check of dlrun, refused the request
  kExitUnavailable = 4,  ///< Slurm, a host, a registry or a search program did not answer
  kExitRunFailed = 5,    ///< the run failed, or a search program ended too early
  kExitNotFound = 6,     ///< no such file, run, job or program
  kExitInterrupted = 130,
  /// The reader of standard output is gone. Shells report an end by SIGPIPE with this code.
  kExitReaderLeft = 141,
};
/// Returns dlrun's exit code for an error.
[[nodiscard]] int exit_code_of(Errc code);

/// Returns the exit code of `dlrun run`, `dlrun wait` and --watch for a run in this state. A run
/// that is pending or running gives 0. A run that is not submitted, or whose state is unknown,
/// gives the code for "not found". In these four states the result is kExitUnavailable if the
/// controller did not answer.
[[nodiscard]] int exit_code_of_state(const RunStatus& status);

}  // namespace dlrun
