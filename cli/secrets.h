#pragma once
// The values of a job's secrets, gathered where the user is.

#include <string_view>
#include <vector>

#include "cli/cli.h"
#include "launcher/runs/secrets.h"
#include "launcher/spec/load.h"

namespace dlrun {

/// Those of a spec. What is missing is printed with its place, and the Error then has no message.
[[nodiscard]] Result<std::vector<SecretValue>> secrets_of_spec(const Cli& cli,
                                                               const LoadedSpec& loaded);

/// Those that a rendered script names (`--secret NAME`): from where the spec's own sources say,
/// else, where somebody wrote the name into the script, from the environment.
[[nodiscard]] Result<std::vector<SecretValue>> secrets_of_script(
    const Cli& cli, std::string_view script, const std::vector<SecretSource>& sources);

/// Their names leave env: what Slurm stores of a job's environment holds no secret.
void hide_secrets(Env& env, const std::vector<SecretValue>& secrets);

}  // namespace dlrun
