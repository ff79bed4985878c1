#pragma once
// The configuration of the sshd that serves one ssh connection into a job. No I/O.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"

namespace dlrun::agent {

/// Returns true for a variable of the job's step that a session gets. A session has its own home,
/// shell, terminal and desktop, and no shell functions of others.
[[nodiscard]] bool goes_into_session(std::string_view name);

/// The text of a configuration file of sshd.
struct SshdConfig {
  std::string text;
  /// The variables that are left out, because one line of the file cannot hold their values.
  std::vector<std::string> left_out;
};

/// Returns the configuration. folder: absolute; holds host_key and user_key.pub. The user's own
/// ~/.ssh/authorized_keys are accepted, too. env: the job's variables, which sessions get.
/// is_plain: leaves out values with quotes and backslashes, which sshd before 8.7 misreads.
[[nodiscard]] SshdConfig sshd_config(const std::filesystem::path& folder, const Env& env,
                                     bool is_plain);

}  // namespace dlrun::agent
