#pragma once
// Starts a job in an allocation that the user already has.

#include "launcher/runs/provenance.h"
#include "launcher/runs/run_directory.h"
#include "launcher/submit/allocation.h"

namespace dlrun {

/// Checks the request before anything is recorded: the spec must not be a sweep, and its resources
/// must fit into the allocation. Fails with kUsage or kInvalid.
[[nodiscard]] Result<> check_fit(const Experiment& experiment, const Allocation& allocation);

/// Fetches the job's downloads, records the run and starts its script on this machine, from where
/// srun starts the ranks in the allocation. The script outlives this process; the run's journal has
/// it as a job of this machine, so that `dlrun cancel` ends the run and not the allocation. The
/// output goes to local.out in the run. The job must have passed check_job().
[[nodiscard]] Result<RunDirectory> start_in_allocation(const Context& context, Reporter& reporter,
                                                       const Job& job, const Allocation& allocation,
                                                       Provenance& provenance);

}  // namespace dlrun
