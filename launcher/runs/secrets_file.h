#pragma once
// The secrets of a job: those of its programs (environment.secrets), and those of lead (the address
// of the webhook, the token of MLflow). dlrun passes them in one file of the run, and never in an
// environment that Slurm stores, an argument, the script or a log. runtime/agent/secrets.h is the
// agent's side; runtime/ENVIRONMENT.md documents the file.

#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

struct SecretValue {
  std::string name, value;
};

/// Returns the value of one secret: from its file, without the last line break, or, for a secret
/// without a file, from env. Fails with kInvalid if the value is not set, is empty, has a NUL or is
/// larger than 64 KiB, and as read_file() does. No message shows a value.
[[nodiscard]] Result<SecretValue> read_secret(const SecretSource& source, const Env& env);

/// Writes RUN/secrets with mode 0600. Writes nothing if there are no secrets.
[[nodiscard]] Result<> write_secrets(const std::filesystem::path& run,
                                     const std::vector<SecretValue>& secrets);

/// Removes RUN/secrets if it exists. Call it when no job of the run can need the file any more.
void remove_secrets(const std::filesystem::path& run);

}  // namespace dlrun
