#pragma once
// Checks the options that a spec passes on to Slurm (`slurm`, `launch.srun`, `launch.mpi`) against
// the installed sbatch, srun and salloc.

#include <string>
#include <vector>

#include "launcher/spec/load.h"
#include "launcher/submit/context.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// Fails with kInvalid if sbatch does not know an option. Reports each such option with its line in
/// the spec and the nearest known name. An option that srun does not know, or an MPI plugin
/// (`launch.mpi`) that srun does not list, is only a warning: the nodes may have other plugins than
/// this machine. Does not check: the options of a program that is not installed; the options of
/// sbatch if the job is submitted through slurmrestd; the plugins if the job is for another
/// cluster. Contacts no controller; starts a program only if the spec has options for that program.
[[nodiscard]] Result<> check_slurm_options(const Context& context, Reporter& reporter,
                                           const LoadedSpec& loaded);

/// Checks the options in `slurm` that an interactive session passes to salloc against the installed
/// salloc. Fails with kInvalid and a problem for each option that salloc does not know, and for
/// --no-shell and its abbreviations: salloc would keep the allocation and start nothing in it.
/// arguments: those of salloc; options that are not among them are not checked.
[[nodiscard]] Result<> check_salloc_options(const Context& context, const LoadedSpec& loaded,
                                            const std::vector<std::string>& arguments);

}  // namespace dlrun
