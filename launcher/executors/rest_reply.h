#pragma once
// Parses slurmrestd's responses in all versions of its API: a number can be bare or an object {set,
// infinite, number}; a state can be a word or a list of words. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/executors/executor.h"

namespace dlrun {

/// Returns Slurm's error messages, such as "Invalid partition name specified (2000)". Returns the
/// start of the body if it is no JSON object, and an empty text if there is no error.
[[nodiscard]] std::string rest_errors(std::string_view body);

/// Returns the warnings about fields that slurmrestd has ignored because it does not know them or
/// cannot use them; empty if there are none. Skips Slurm's messages about an accepted job, such as
/// "Requested nodes are busy".
[[nodiscard]] std::string rest_field_warnings(std::string_view body);

/// Returns Slurm's errors in the response to a cancellation. A response with status 200 can contain
/// an error for each job, from v0.0.40 on. Returns an empty text if all jobs were cancelled or had
/// ended before.
[[nodiscard]] std::string rest_cancel_failure(std::string_view body);

/// Returns true if the body is one complete JSON object, like every response of a slurmrestd to a
/// path that it knows.
[[nodiscard]] bool rest_is_complete(std::string_view body);

/// Returns true if the errors say that the controller does not know the job id.
[[nodiscard]] bool rest_says_unknown_job(std::string_view body);

/// Returns true if the errors say that slurmrestd did not reach Slurm's controller. If an error's
/// number is in the table of rest_reply.cc, or from 2000 to 2999, the number decides; otherwise the
/// error's words decide.
[[nodiscard]] bool rest_says_unreachable(std::string_view body);

/// Returns true if one of the errors has a number of slurmctld (2000 to 2999). slurmctld has then
/// answered, and not only slurmrestd or a gateway.
[[nodiscard]] bool rest_has_error_of_controller(std::string_view body);

/// Returns the reason for which Slurm refused the request. If the response has several errors, the
/// first reason other than kOther counts. Returns kOther if there is no such reason. Numbers and
/// words decide as in rest_says_unreachable().
[[nodiscard]] SlurmRefusal rest_refusal_reason(std::string_view body);

/// Returns the versions of the API that can submit jobs, from the server's own description:
/// {"v0.0.42", "v0.0.43"}. Returns at most 32 versions, because the server may not be a slurmrestd.
[[nodiscard]] std::vector<std::string> rest_versions(std::string_view openapi);

/// Returns Slurm's release, from the meta part of any response; empty if there is none.
[[nodiscard]] std::string rest_release(std::string_view body);

/// Returns true if a ping's response lists a controller that is up.
[[nodiscard]] bool rest_has_controller(std::string_view body);

/// Returns the id of a submitted job; nullopt if the response has none. A response with an id can
/// also have errors, and a status other than 200: Slurm has accepted the job, and cannot start it
/// now.
[[nodiscard]] std::optional<std::string> rest_job_id(std::string_view body);

/// Returns one user's jobs from a response to GET jobs or GET job/ID; every task of an array
/// separately. Fails with kInternal for any other response.
[[nodiscard]] Result<std::vector<JobReport>> rest_jobs(std::string_view body, std::int64_t uid);

/// Reduces a response to GET jobs to the user's jobs and to the fields that rest_jobs() reads,
/// because the queue of a whole cluster is large.
[[nodiscard]] std::string reduced_rest_jobs(std::string_view body, std::int64_t uid);

/// Returns the time at which a JSON Web Token expires, in seconds since 1970; nullopt if the token
/// does not contain the time.
[[nodiscard]] std::optional<std::int64_t> token_expiry(std::string_view token);

}  // namespace dlrun
