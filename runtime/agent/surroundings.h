#pragma once
// What the job found around it, for the run's record: Slurm's version, the nodes, the modules that
// were loaded and the packages of the conda or virtual environment that was active.

#include <sys/types.h>

#include <filesystem>

#include "common/env.h"

namespace dlrun::agent {

/// Writes RUN/surroundings.json (ENVIRONMENT.md) from a child process, whose pid it returns; -1
/// where there is none. Nothing fails with it, after a minute it gives up, and it dies with its
/// parent. Must be called before there is a second thread.
pid_t record_surroundings(const std::filesystem::path& run, int attempt, const Env& env);

}  // namespace dlrun::agent
