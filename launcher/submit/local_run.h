#pragma once
// Implements `dlrun run`, which runs a job on this machine without Slurm. Lead runs in the
// foreground and starts the ranks.

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include <nlohmann/json_fwd.hpp>

#include "launcher/executors/foreground.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/status.h"
#include "launcher/submit/experiment.h"

namespace dlrun {

/// The options of a local run, except those that change the spec (SpecOptions).
struct LocalRunChoices {
  std::optional<std::size_t> point{};  ///< for a sweep, the point that runs
  bool is_dry_run = false;             ///< only returns the script
  bool prints_to_stderr = false;       ///< the ranks' output goes to standard error
};

/// With is_dry_run: the script that would run. Nothing is written or started.
struct LocalScript {
  std::string script;
};

/// A run on this machine that has ended.
struct LocalRun {
  RunDirectory run;
  ForegroundEnd end;
  RunStatus status;
};

using LocalResult = std::variant<LocalScript, LocalRun>;

/// Plans and checks the job, fetches its downloads, builds its environments, records the run and
/// waits for its end. With choices.is_dry_run, only returns the script. Fails with kUsage for a
/// sweep without choices.point.
[[nodiscard]] Result<LocalResult> run_on_this_machine(const Context& context, Reporter& reporter,
                                                      const SpecOptions& options,
                                                      const LocalRunChoices& choices);

/// Returns the JSON of `dlrun run --dry-run --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json submission_json(const LocalScript& script);

}  // namespace dlrun
