#pragma once
// Implements `dlrun run --here` and `dlrun submit --in`, which start a run in an allocation that
// the user already has.

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include <nlohmann/json_fwd.hpp>

#include "launcher/runs/provenance.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/status.h"
#include "launcher/submit/allocation.h"

namespace dlrun {

/// The options of a run in an allocation, except those that change the spec (SpecOptions).
struct AllocationRunChoices {
  std::optional<std::string> job;  ///< the id of the allocation's job; nullopt: this shell's job
  std::optional<std::size_t> point{};  ///< for a sweep, the point that runs
  bool is_dry_run = false;             ///< only returns the script
};

/// With is_dry_run: the script that would run. Nothing is written or started.
struct AllocationScript {
  /// The allocation's job; empty: no job is given, and this shell is not in an allocation.
  std::string job;
  std::string script;
};

struct StartedRun {
  std::string job;  ///< the allocation's job
  RunDirectory run;
};

using AllocationResult = std::variant<AllocationScript, StartedRun>;

/// Checks that the experiment can run in the allocation. Fails with kUsage for a whole sweep; a
/// chosen point (AllocationRunChoices::point) is a single run. Fails with kInvalid and all problems
/// if the allocation lacks resources that the spec requests.
[[nodiscard]] Result<> check_fit(const Experiment& experiment, const Allocation& allocation);

/// Plans and checks the job, fetches its downloads, builds its environments, records the run, and
/// starts the run's script on this machine, from where srun starts the ranks in the allocation. The
/// script outlives this process. The run's journal records the script's process as the job, so that
/// `dlrun cancel` ends the run and not the allocation. The output goes to local.out in the run.
/// With choices.is_dry_run, only returns the script.
///
/// Fails with kUsage if choices.job is not set and this shell is not in an allocation, except with
/// choices.is_dry_run. Also fails with kUsage if choices.job is set and context.env has a
/// submission token (held_token.h): the call then comes from `dlrun -H` on another machine. After a
/// cut connection that machine repeats the call, which would start the run twice.
[[nodiscard]] Result<AllocationResult> start_in_allocation(Context& context, Reporter& reporter,
                                                           RunInspector& inspector,
                                                           SpecOptions options,
                                                           const AllocationRunChoices& choices,
                                                           Provenance& provenance);

/// Each function returns the JSON of `dlrun run --here --json` and `dlrun submit --in --json`;
/// cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json submission_json(const AllocationScript& script);
[[nodiscard]] nlohmann::ordered_json submission_json(const StartedRun& started);

}  // namespace dlrun
