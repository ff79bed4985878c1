#pragma once
// A rank's part in the autopsy of a hang: `dlrun-agent autopsy` beside the program, and what it
// says to lead.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

class RankAutopsy {
 public:
  using Json = nlohmann::ordered_json;

  /// Starts it for the rank's processes; its text goes into the run's autopsy folder. Fails as
  /// start_program does.
  [[nodiscard]] Result<> start(const Env& env, const World& world, const std::filesystem::path& run,
                               int attempt, const std::vector<pid_t>& pids);

  /// A child has ended. The message for lead where it was this one.
  [[nodiscard]] std::optional<Json> on_reaped(pid_t pid);
  /// The message of a rank that has no stack to show.
  [[nodiscard]] static Json nothing();

 private:
  pid_t pid_ = -1;
  UniqueFd out_;
};

}  // namespace dlrun::agent
