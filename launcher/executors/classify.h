#pragma once
// Slurm's commands exit with 1 for any failure, so these functions tell failures apart by the
// messages of the commands. err: the text that the command wrote to standard error.

#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// Returns Slurm's messages as one printable line, without the program's name and "error:".
[[nodiscard]] std::string slurm_message(std::string_view err);

/// Returns true if the messages say that a daemon did not answer (controller, database, munge).
/// Returns false if Slurm refused the request.
[[nodiscard]] bool says_unreachable(std::string_view err);

/// Returns true if the messages say that the controller accepts no more requests for now; the
/// request may be retried.
[[nodiscard]] bool says_busy(std::string_view err);

/// Returns true if the messages say that the controller does not know the job id: the job was
/// purged or never existed.
[[nodiscard]] bool says_unknown_job(std::string_view err);

/// Returns the reason for which Slurm refused a request, from its messages.
[[nodiscard]] SlurmRefusal refusal_in(std::string_view err);

/// Returns the Error for a Slurm command that failed: kUnavailable or kRefused, with Slurm's
/// messages and the reason for a refusal. If a daemon did not answer, the error's message says
/// which: the controller, slurmdbd or munge.
[[nodiscard]] Error slurm_error(std::string_view program, std::string_view err, int exit_code);

}  // namespace dlrun
