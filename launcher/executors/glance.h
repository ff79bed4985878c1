#pragma once
// Queries a job once, right after its submission, to tell the user when the job will start.

#include <chrono>
#include <optional>

#include "launcher/executors/executor.h"

namespace dlrun {

/// Returns squeue's report on the job; nullopt if squeue does not answer in time or does not know
/// the job. env is the submitter's environment.
[[nodiscard]] std::optional<JobReport> glance_at(const Env& env, const JobId& job,
                                                 std::chrono::milliseconds at_most);

}  // namespace dlrun
