#pragma once
// Builds the job description of slurmrestd's API from sbatch's inputs: the script with its #SBATCH
// lines, the options of the command line, the environment. Pure functions.
//
// rest_fields.cc has the fields of each version, as observed in tests. dlrun refuses an option that
// a version drops, misreads or does not have. Otherwise the job would silently differ from the job
// that sbatch submits.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/env.h"
#include "common/result.h"
#include "launcher/spec/rest_version.h"

namespace dlrun {

/// Returns the reason why dlrun cannot send an option of sbatch, such as ("--hint",
/// "nomultithread"), to slurmrestd; nullopt if dlrun can. value: nullopt if the option has no
/// value. version: the version of the API. Without a version, returns a reason only if no version
/// accepts the option; the reason is then that of the newest version.
[[nodiscard]] std::optional<std::string> rest_option_refusal(
    std::string_view option, const std::optional<std::string>& value,
    std::optional<RestVersion> version);

/// The inputs that sbatch would get. The members are views; the caller must keep the texts alive.
struct RestJobInputs {
  std::string_view script;       ///< the text of the script
  std::string_view script_name;  ///< the script's file name: sbatch's default for the job's name
  /// Options of the command line, such as "--comment=x"; they override the script's options.
  std::span<const std::string> options;
  std::string_view directory;  ///< the folder in which sbatch would be called
  const Env& env;              ///< the job's environment
  RestVersion version;         ///< the version of the API that gets the job
  /// For messages: each option's key in the spec, such as "--hint" -> "resources.hint".
  const std::map<std::string, std::string>& keys;
};

/// Returns the body of the request POST job/submit. Fails with kInvalid if options cannot be sent
/// (the message names each), or if a text is not UTF-8, which JSON requires.
[[nodiscard]] Result<std::string> rest_job_body(const RestJobInputs& inputs);

}  // namespace dlrun
