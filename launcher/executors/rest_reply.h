#pragma once
// What slurmrestd answers, read tolerantly. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/executors/executor.h"

namespace dlrun {

/// Slurm's own words about what went wrong: "Invalid partition name specified (2000)"; what the
/// body says where it is no such answer. Empty: it holds no error.
[[nodiscard]] std::string rest_errors(std::string_view body);

/// True when the errors say that the job id means nothing to the controller.
[[nodiscard]] bool rest_says_unknown_job(std::string_view body);

/// The versions of the API that can submit jobs, from the server's own description: {"v0.0.37",
/// "v0.0.38"}.
[[nodiscard]] std::vector<std::string> rest_versions(std::string_view openapi);

/// Slurm's release, from the meta part of any answer; empty where there is none.
[[nodiscard]] std::string rest_release(std::string_view body);

/// True when a ping's answer names a controller that is up.
[[nodiscard]] bool rest_has_controller(std::string_view body);

/// The id of a job that was submitted.
[[nodiscard]] std::optional<std::string> rest_job_id(std::string_view body);

/// The jobs of one user in an answer to GET jobs or GET job/ID; of an array every task. kInternal
/// when it is no such answer.
[[nodiscard]] Result<std::vector<JobReport>> rest_jobs(std::string_view body, std::int64_t uid);

/// The same answer with that user's jobs and the fields that rest_jobs() reads alone: a cluster's
/// whole queue is large.
[[nodiscard]] std::string rest_jobs_of(std::string_view body, std::int64_t uid);

/// When a JSON Web Token expires, seconds since 1970; nothing where it does not say.
[[nodiscard]] std::optional<std::int64_t> token_expiry(std::string_view token);

}  // namespace dlrun
