#pragma once
// Builds the job description of slurmrestd's API from sbatch's inputs: the script with its #SBATCH
// lines, the options of the command line, the environment. Pure functions.
//
// docs/slurmrestd.md records how slurmrestd 22.05 treats each field, as observed in tests. dlrun
// refuses an option that slurmrestd drops, misreads or does not have. Otherwise the job would
// silently differ from the job that sbatch submits.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// The version of the API that dlrun uses; Slurm 22.05 to 23.11 support it.
inline constexpr std::string_view kRestVersion = "v0.0.38";

/// Returns the reason why slurmrestd cannot get an option of sbatch, such as ("--hint",
/// "nomultithread"); nullopt if it can. value: nullopt if the option has no value.
[[nodiscard]] std::optional<std::string> rest_refusal(std::string_view option,
                                                      const std::optional<std::string>& value);

/// The inputs that sbatch would get. The members are views; the caller must keep the texts alive.
struct RestJobInputs {
  std::string_view script;       ///< the text of the script
  std::string_view script_name;  ///< sbatch's default for the job's name
  /// Options of the command line, such as "--comment=x"; they override the script's options.
  std::span<const std::string> options;
  std::string_view directory;  ///< the folder in which sbatch would be called
  const Env& env;              ///< the job's environment
};

/// Returns the body of POST job/submit. Fails with kInvalid if options cannot be sent (the message
/// names each), or if the script or the environment is not UTF-8, which JSON requires.
[[nodiscard]] Result<std::string> rest_job(const RestJobInputs& inputs);

}  // namespace dlrun
