#pragma once
// Explains why a job is pending: the meaning of Slurm's reason, and what the user can change. Pure
// functions.

#include <string>
#include <string_view>

#include "launcher/executors/executor.h"

namespace dlrun {

/// Returns the meaning of a reason (JOB STATE REASON in squeue's manual) as one sentence, with the
/// change that helps if there is one. Returns "" for a reason that dlrun does not know.
[[nodiscard]] std::string meaning_of_reason(std::string_view reason);

/// Returns why the job is pending: "Priority: other jobs with a higher priority come first; ...".
/// Slurm's reason comes first, so that the user can look up the reason. If a dependency can no
/// longer be fulfilled, the text contains it. Returns only Slurm's reason if dlrun does not know
/// the meaning, and "" if Slurm gives no reason. dependency: the dependency with which the job was
/// submitted, such as "afterok:12"; empty if it is unknown.
[[nodiscard]] std::string pending_sentence(const JobReport& report, std::string_view dependency);

/// Returns true if the job waits because of the other jobs in the queue, not because of its own
/// request.
[[nodiscard]] bool waits_for_its_turn(const JobReport& report);

}  // namespace dlrun
