#pragma once
// One quick look at a job that was just submitted, for what people are told; nothing depends on it.

#include <chrono>
#include <optional>

#include "launcher/executors/executor.h"

namespace dlrun {

/// What squeue says of the job; nothing where it does not answer in time or knows no such job. env
/// is the submitter's.
[[nodiscard]] std::optional<JobReport> glance_at(const Env& env, const JobId& job,
                                                 std::chrono::milliseconds at_most);

}  // namespace dlrun
