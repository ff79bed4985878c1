#pragma once
// The job description of slurmrestd's API, made from what sbatch would be given: the script with
// its #SBATCH lines, the words of the command line, the environment. Pure.
//
// What slurmrestd 22.05 does with each field was seen, not only read: docs/slurmrestd.md. An option
// that it drops, misreads or does not know is refused by name: a job that differs silently from
// sbatch's is worse than none.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// The version of the API that dlrun speaks: Slurm 22.05 to 23.11 have it.
inline constexpr std::string_view kRestVersion = "v0.0.38";

/// Why sbatch's option ("--hint", "nomultithread") cannot be sent; nothing where it can.
[[nodiscard]] std::optional<std::string> rest_refusal(std::string_view option,
                                                      const std::optional<std::string>& value);

struct RestJobInputs {
  std::string_view script;       ///< the text
  std::string_view script_name;  ///< sbatch's default for the job's name
  std::span<const std::string>
      options;                 ///< of the command line: "--comment=x"; they beat the script's
  std::string_view directory;  ///< where sbatch would be called
  const Env& env;              ///< the job's
};

/// The body of POST job/submit. Fails with kInvalid, naming every option that cannot be sent, and
/// for a script or an environment that is not UTF-8 and so cannot stand in JSON.
[[nodiscard]] Result<std::string> rest_job(const RestJobInputs& inputs);

}  // namespace dlrun
