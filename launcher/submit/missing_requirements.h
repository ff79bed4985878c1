#pragma once
// Looks for the programs that a job requires on its nodes and that this machine can also have:
// `module`, conda, the container tool, Slurm's pyxis plugin, and the program that the ranks run.

#include <vector>

#include "launcher/submit/experiment.h"

namespace dlrun {

/// Returns a warning for each program that is missing here, with the place of the key that needs
/// it. These are warnings and not errors, because the nodes may have what this machine lacks. Loads
/// no modules and runs no line of the spec: checking a spec that somebody else wrote must not run
/// its code. Therefore does not look for conda and the container tool if modules, EESSI or
/// environment.setup may bring them. Starts bash and srun, each for at most 30 s, and only for a
/// spec with modules, conda or a container.
[[nodiscard]] std::vector<Diagnostic> warnings_about_missing_requirements(
    const Context& context, const Experiment& experiment);

}  // namespace dlrun
