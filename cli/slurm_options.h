#pragma once
// The free options of a spec (`slurm`, `launch.srun`) against those that the installed sbatch and
// srun have.

#include <string>
#include <vector>

#include "cli/cli.h"
#include "launcher/spec/load.h"

namespace dlrun {

/// Prints an error for each option that sbatch does not take, with its place and the nearest name
/// that it has, and fails with an empty message then; of srun's, whose plugins may be the nodes'
/// alone, a warning. Nothing is said where there is no such program, and of an MPI plugin
/// (`launch.mpi`) that srun does not list a warning. Asks no controller; costs one start of a
/// program, and only where such options are.
[[nodiscard]] Result<> check_slurm_options(const Cli& cli, const LoadedSpec& loaded);

/// The same of those that an interactive session gives to salloc, in words; --no-shell is refused,
/// which would keep the allocation and start nothing in it.
[[nodiscard]] Result<> check_salloc_options(const Cli& cli, const LoadedSpec& loaded,
                                            const std::vector<std::string>& words);

}  // namespace dlrun
