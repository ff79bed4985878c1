#pragma once
// Records the environment in which the job runs: Slurm's version, the nodes, the loaded modules,
// and the packages of the active conda or virtual environment.

#include <sys/types.h>

#include <filesystem>

#include "common/env.h"

namespace dlrun::agent {

/// Starts a child process that writes RUN/surroundings.json (ENVIRONMENT.md). Returns its process
/// id, or -1 if fork() failed. The child gives up after one minute and dies with its parent; its
/// failure has no consequence. Must be called before there is a second thread.
pid_t start_recording_surroundings(const std::filesystem::path& run, int attempt, const Env& env);

}  // namespace dlrun::agent
