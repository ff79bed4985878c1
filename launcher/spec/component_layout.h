#pragma once
// The nodes and the request of a job with components. Pure functions, which also work for invalid
// specs.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/load.h"

namespace dlrun {

/// The resources that components request on each of their nodes.
struct NodeRequest {
  std::int64_t ranks = 0, cpus = 0;
  Gpus gpus;
  /// nullopt if a component requests no amount of memory. In ComponentLayout::common_request:
  /// nullopt if every group has such a component.
  std::optional<std::int64_t> mem_mib = 0;
};

/// Components that use the same nodes: one component, and all that share its nodes.
struct NodeGroup {
  std::vector<std::size_t> components;  ///< indices; the first one owns the nodes
  /// The index of the group's first node among all nodes of the job, and the number of its nodes.
  std::int64_t first_node = 0, nodes = 1;
  NodeRequest request;  ///< the sum of the components' requests
};

struct ComponentLayout {
  bool is_hetjob = false;  ///< the job is heterogeneous: each component is a part of its own
  /// The first key whose values differ between components although an allocation has only one value
  /// of it, such as "partition"; "gpus_per_node" if the types of the GPUs differ. Empty if none
  /// differs.
  std::string differing_key;
  std::vector<NodeGroup> groups;
  std::int64_t nodes = 0;  ///< the number of nodes of all groups
  /// The request for each node of a single allocation: for every resource the largest number that
  /// a group needs. A group that requests no amount of memory does not count for the memory.
  NodeRequest common_request;
  /// The indices of all components, in the order of the parts if the job is heterogeneous. The
  /// first one is a main component, because the job script runs on the first node of the first
  /// part.
  std::vector<std::size_t> components_in_part_order;

  /// Returns the group of a component.
  [[nodiscard]] const NodeGroup& group_of(std::size_t component) const;
};

/// Returns the layout. specs: the result of loaded_specs_of_components(). A component gets nodes of
/// its own unless its `shares` is the name of another component.
[[nodiscard]] ComponentLayout layout_of(const JobSpec& spec, const std::vector<LoadedSpec>& specs);

/// Returns the resources that one component requests on each of its nodes.
[[nodiscard]] NodeRequest request_of(const JobSpec& component);

/// Returns the number of nodes of a component: 1 if the spec gives none, the upper end if the spec
/// gives a range.
[[nodiscard]] std::int64_t nodes_of(const JobSpec& component);

/// Returns the index of the component with this name; nullopt if there is none.
[[nodiscard]] std::optional<std::size_t> find_component(const JobSpec& spec, std::string_view name);

/// Returns a component's name as it stands in names of variables: "my-server" -> MY_SERVER.
[[nodiscard]] std::string name_in_variables(std::string_view component);

/// Returns the names of a cycle in which each component waits for the next one, with the first name
/// again at the end; empty if there is no cycle.
[[nodiscard]] std::vector<std::string> find_waiting_cycle(const JobSpec& spec);

}  // namespace dlrun
