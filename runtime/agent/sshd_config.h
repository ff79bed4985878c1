#pragma once
// The configuration of the sshd that serves one ssh connection into a job. No I/O.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"

namespace dlrun::agent {

/// Returns true if an ssh session gets this variable of the job's step. Returns false for variables
/// that sshd, the user's shell or an interactive program sets itself (home, shell, terminal,
/// editor, desktop), for BASH_ENV, and for exported shell functions.
[[nodiscard]] bool goes_into_session(std::string_view name);

/// A configuration file of sshd.
struct SshdConfig {
  std::string text;
  /// The variables that are left out, because a line of the file cannot express their names or
  /// values.
  std::vector<std::string> left_out;
};

/// Returns the configuration. folder: absolute; holds host_key and user_key.pub. sshd also accepts
/// the keys in the user's ~/.ssh/authorized_keys. env: the environment of the job's step; sessions
/// get the variables for which goes_into_session() returns true. leaves_out_values_with_quotes:
/// also leaves out values with quotes or backslashes, which sshd before 8.7 misreads.
[[nodiscard]] SshdConfig sshd_config(const std::filesystem::path& folder, const Env& env,
                                     bool leaves_out_values_with_quotes);

}  // namespace dlrun::agent
