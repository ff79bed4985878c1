#pragma once
// Values that only the job's program may see. They travel in one file of the run, never in an
// environment that Slurm stores, an argument, the script or a log. The agent's side is
// runtime/agent/secrets.h; the page runtime/ENVIRONMENT.md.

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

/// The value of one: from its file, without the last newline, or from env. Fails with kInvalid: not
/// set, empty, a NUL in it, or larger than 64 KiB; with read_file's errors. No message holds a
/// value.
[[nodiscard]] Result<SecretValue> read_secret(const SecretSource& source, const Env& env);

/// Writes RUN/secrets, 0600. Nothing is written for no secrets.
[[nodiscard]] Result<> write_secrets(const std::filesystem::path& run,
                                     const std::vector<SecretValue>& secrets);

/// Called whenever a run is known to be over. No file: nothing to do.
void remove_secrets(const std::filesystem::path& run);

}  // namespace dlrun
