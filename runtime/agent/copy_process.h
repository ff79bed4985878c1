#pragma once
// The process that copies files for a rank's agent: `dlrun-agent stage` or `dlrun-agent collect`.
// It is a process of its own, because a copy can hang in a file system, and the agent must not.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"
#include "runtime/agent/copy_report.h"

namespace dlrun::agent {

class CopyProcess {
 public:
  /// Starts dlrun-agent with these arguments. Fails as start_program() does, and with kInternal if
  /// the process runs already.
  [[nodiscard]] Result<> start(const Env& env, const std::vector<std::string>& arguments);
  [[nodiscard]] bool is_running() const { return pid_ > 0; }
  [[nodiscard]] pid_t pid() const { return pid_; }  ///< -1 if it does not run
  /// Returns the report if the child that has ended is the copying process.
  [[nodiscard]] std::optional<CopyReport> on_reaped(pid_t pid, int status);
  /// Kills the process. Its report still comes from on_reaped().
  void kill();

 private:
  pid_t pid_ = -1;
  bool is_killed_ = false;
  UniqueFd out_;
};

}  // namespace dlrun::agent
