#pragma once
// A rank's part in the autopsy of a hang: runs `dlrun-agent autopsy` beside the program and turns
// its output into a message for lead.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"
#include "runtime/agent/messages.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

class RankAutopsy {
 public:
  /// Starts `dlrun-agent autopsy` for the rank's processes. It writes a file into `folder`. Fails
  /// as start_program() does, and with kInternal if an autopsy is running.
  [[nodiscard]] Result<> start(const Env& env, const World& world,
                               const std::filesystem::path& folder, const std::vector<pid_t>& pids);

  /// Returns the message for lead if the child that has ended is the autopsy.
  [[nodiscard]] std::optional<to_lead::Autopsy> on_reaped(pid_t pid);

 private:
  pid_t pid_ = -1;
  UniqueFd out_;
};

}  // namespace dlrun::agent
