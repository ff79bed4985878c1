#pragma once
// A run's status, for people and for programs. cli/OUTPUT.md documents the JSON; it is stable.

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/cli.h"
#include "cli/terminal/text.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Returns the JSON of `dlrun status --json`, and the same status as lines for people.
[[nodiscard]] nlohmann::ordered_json status_json(const IndexEntry& run, const RunStatus& status);
[[nodiscard]] Text status_text(const IndexEntry& run, const RunStatus& status);

/// Returns one sentence on how the run ended, for --watch and wait: "mnist-...: failed: rank 3 on
/// n2 was ended by SIGKILL".
[[nodiscard]] std::string end_text(const IndexEntry& run, const RunStatus& status);

/// Returns the exit code of wait and --watch for a run in a final state.
[[nodiscard]] int exit_code_of_end(const RunStatus& status);

/// Prints how the run ended to stderr. Returns the exit code.
[[nodiscard]] int tell_end(const Cli& cli, const IndexEntry& run, const RunStatus& status);

/// Returns a result as "test_accuracy 0.9781, parameters 3f2a".
[[nodiscard]] std::string result_text(const std::string& result);

}  // namespace dlrun
