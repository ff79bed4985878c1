#pragma once
// A part of the key table (launcher/spec/spec_keys.h): the components of a job. component_reader.cc
// has the keys of one component.

#include "launcher/spec/keys/key_row_parts.h"

namespace dlrun::keys {

// clang-format off
inline constexpr KeyRow kComponentKeys[] = {
  {.path = "components", FIELD(components),
   .help = "The job runs several programs, its components, instead of one. Each component is a "
           "map. name: its name. role: main, or service for a server, which ends once all main "
           "components are done. nodes, tasks_per_node, gpus_per_node, cpus_per_task, mem, "
           "partition, constraint, account, qos: as in resources; a service has one task per node "
           "by default. launch, container, vars: as launch, container and environment.vars of the "
           "spec. A key that the component does not give has the value of the spec. after: "
           "components that must be ready first. ready: {http: PATH} or {tcp: true}, with "
           "timeout (10m by default): how a service shows that it is ready; by default, the "
           "agents of all its ranks must have connected. retry: {max: N}: a service that ends "
           "starts again, at most N times. shares: the component whose nodes it uses. In "
           "launch.command of a service, {port} is a port that dlrun reserves.",
   .example = "[{name: server, role: service, gpus_per_node: 2, launch: {command: [serve]}}, "
              "{name: trainer, nodes: 2, gpus_per_node: 4, after: server}]"},
  {.path = "hetjob", FIELD(hetjob), .format = Format::kChoice, .choices = "auto true false",
   .help = "With true the components are the parts of a heterogeneous job of Slurm, each with its "
           "own request. With false the components share one allocation, whose nodes are all "
           "alike. auto: true if components differ in partition, constraint, account, qos or type "
           "of GPU.",
   .fallback = "auto", .example = "auto"},
};
// clang-format on

}  // namespace dlrun::keys
