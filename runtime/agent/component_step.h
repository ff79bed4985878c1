#pragma once
// The srun command line and the environment of a component's step. Pure functions.

#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "runtime/agent/component_options.h"

namespace dlrun::agent {

/// Returns the srun command line of a component: its srun options, its nodes, and its name as
/// the name of the step. env: the environment of the batch step. Fails with kUsage if the
/// job has too few nodes, and as expand_hostlist() does if SLURM_JOB_NODELIST is no node list.
[[nodiscard]] Result<std::vector<std::string>> component_command(const ComponentOptions& component,
                                                                 const Env& env);

/// Returns the node list of the job, with the nodes of all parts of a heterogeneous job.
[[nodiscard]] std::string nodes_of_job(const Env& env);

/// Prepares the environment of a component's step. Removes the variables of the batch step that
/// srun would take for options of this step, and those that describe the GPUs of the batch node.
/// Sets DLRUN_COMPONENT, DLRUN_HELD_PORT if held_port is not 0, and DLRUN_HIDES_GPUS if the
/// component has no GPUs. held_port: the port that rank 0 must hold again; 0: any free port.
void set_component_env(Env& env, const ComponentOptions& component, int held_port);

}  // namespace dlrun::agent
