#pragma once
// What the job found around it, for the run's record: Slurm's version, the nodes, the modules that were loaded and the
// packages of the conda or virtual environment that was active.

#include <filesystem>

#include "common/env.h"

namespace dlrun::agent {

/// Writes RUN/surroundings.json (ENVIRONMENT.md) from a process of its own: nothing waits for it and nothing fails with
/// it, and after a minute it gives up. Must be called before there is a second thread.
void record_surroundings(const std::filesystem::path& run, int attempt, const Env& env);

}  // namespace dlrun::agent
