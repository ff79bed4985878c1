#pragma once
// Reads the values of a job's secrets on the machine where the user submits.

#include <string_view>
#include <vector>

#include "launcher/runs/secrets_file.h"
#include "launcher/spec/load.h"
#include "launcher/submit/context.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// Returns the secrets of a spec. has_lead: the job runs lead, so also returns the secrets that
/// lead reads (notify, track). Fails with kInvalid if secrets cannot be read, or if the webhook's
/// secret is not an address; the error holds each problem with its place in the spec.
[[nodiscard]] Result<std::vector<SecretValue>> secrets_of_spec(const Context& context,
                                                               const LoadedSpec& loaded,
                                                               bool has_lead);

/// Returns the secrets of a script. names: ScriptRequests::secrets. Each secret is read from its
/// entry in `sources`. A name without an entry was added to the script by hand; its secret is read
/// from the environment. Fails as read_secret() does.
[[nodiscard]] Result<std::vector<SecretValue>> secrets_of_script(
    const Context& context, const std::vector<std::string>& names,
    const std::vector<SecretSource>& sources);

/// Warns of each file of environment.secrets that all users of this machine can read.
void warn_of_readable_secrets(Reporter& reporter, const LoadedSpec& loaded);

/// Removes the secrets from `env`, because Slurm stores a job's environment.
void unset_secrets(Env& env, const std::vector<SecretValue>& secrets);

}  // namespace dlrun
