#include "launcher/spec/component_layout.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/text.h"
#include "common/waiting_cycle.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

void add_request(NodeRequest& sum, const NodeRequest& one) {
  sum.ranks += one.ranks;
  sum.cpus += one.cpus;
  sum.gpus.count += one.gpus.count;
  if (sum.gpus.type.empty()) sum.gpus.type = one.gpus.type;
  if (sum.mem_mib && one.mem_mib) {
    *sum.mem_mib += *one.mem_mib;
  } else {
    sum.mem_mib.reset();
  }
}

/// Returns the component whose nodes `start` uses, found by following `shares`. If `shares` forms a
/// cycle, which validate() refuses, returns `start`.
[[nodiscard]] std::size_t node_owner_of(const JobSpec& spec, std::size_t start) {
  std::size_t owner = start;
  for (std::size_t hops = 0; hops < spec.components.size(); ++hops) {
    const std::string& shares = spec.components[owner].shares;
    const auto next = shares.empty() ? std::nullopt : find_component(spec, shares);
    if (!next) return owner;
    owner = *next;
  }
  return start;
}

/// Returns ComponentLayout::differing_key.
[[nodiscard]] std::string differing_key_of(const std::vector<LoadedSpec>& specs) {
  using Value = std::string (*)(const Resources&);
  constexpr std::array<std::pair<std::string_view, Value>, 4> kKeys{{
      {"partition", [](const Resources& r) { return r.partition.value_or(""); }},
      {"constraint", [](const Resources& r) { return r.constraint.value_or(""); }},
      {"account", [](const Resources& r) { return r.account.value_or(""); }},
      {"qos", [](const Resources& r) { return r.qos.value_or(""); }},
  }};
  if (specs.empty()) return "";
  for (const auto& [name, value] : kKeys) {
    for (const LoadedSpec& component : specs) {
      if (value(component.spec.resources) != value(specs.front().spec.resources))
        return std::string(name);
    }
  }
  std::string type;
  for (const LoadedSpec& component : specs) {
    const auto& gpus = component.spec.resources.gpus_per_node;
    if (!gpus || gpus->count == 0) continue;
    if (!type.empty() && gpus->type != type) return "gpus_per_node";
    type = gpus->type;
  }
  return "";
}

/// Returns the request that is enough for every group. A group that requests no amount of memory
/// does not count for the memory.
[[nodiscard]] NodeRequest common_request_of(const std::vector<NodeGroup>& groups) {
  NodeRequest common_request;
  bool is_memory_known = false;
  for (const NodeGroup& group : groups) {
    const NodeRequest& request = group.request;
    common_request.ranks = std::max(common_request.ranks, request.ranks);
    common_request.cpus = std::max(common_request.cpus, request.cpus);
    common_request.gpus.count = std::max(common_request.gpus.count, request.gpus.count);
    if (common_request.gpus.type.empty()) common_request.gpus.type = request.gpus.type;
    if (!request.mem_mib) continue;
    is_memory_known = true;
    common_request.mem_mib = std::max(*common_request.mem_mib, *request.mem_mib);
  }
  if (!is_memory_known) common_request.mem_mib.reset();
  return common_request;
}

/// Returns ComponentLayout::components_in_part_order: the first main component, then the others.
[[nodiscard]] std::vector<std::size_t> part_order_of(const JobSpec& spec) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < spec.components.size(); ++i) order.push_back(i);
  const auto first_main = std::find_if(
      order.begin(), order.end(), [&](std::size_t i) { return !spec.components[i].is_service; });
  if (first_main != order.end()) std::rotate(order.begin(), first_main, first_main + 1);
  return order;
}

}  // namespace

const NodeGroup& ComponentLayout::group_of(std::size_t component) const {
  return *std::find_if(groups.begin(), groups.end(), [&](const NodeGroup& group) {
    return std::find(group.components.begin(), group.components.end(), component) !=
           group.components.end();
  });
}

ComponentLayout layout_of(const JobSpec& spec, const std::vector<LoadedSpec>& specs) {
  ComponentLayout layout;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (node_owner_of(spec, i) != i) continue;
    NodeGroup group;
    group.components.push_back(i);
    for (std::size_t other = 0; other < specs.size(); ++other) {
      if (other != i && node_owner_of(spec, other) == i) group.components.push_back(other);
    }
    for (const std::size_t member : group.components)
      add_request(group.request, request_of(specs[member].spec));
    group.nodes = nodes_of(specs[i].spec);
    group.first_node = layout.nodes;
    layout.nodes += group.nodes;
    layout.groups.push_back(std::move(group));
  }
  layout.common_request = common_request_of(layout.groups);
  layout.components_in_part_order = part_order_of(spec);
  layout.differing_key = differing_key_of(specs);
  const std::string asked = spec.hetjob.value_or("auto");
  layout.is_hetjob = asked == "true" || (asked == "auto" && !layout.differing_key.empty());
  return layout;
}

NodeRequest request_of(const JobSpec& component) {
  const Resources& r = component.resources;
  NodeRequest request;
  request.ranks = ranks_per_node(component).value_or(1);
  request.cpus = request.ranks * r.cpus_per_task.value_or(1);
  if (r.gpus_per_node) request.gpus = *r.gpus_per_node;
  if (request.gpus.count == 0) request.gpus.type.clear();
  request.mem_mib = r.mem ? memory_mib(*r.mem) : std::nullopt;
  if (const auto per_cpu = memory_mib(r.mem_per_cpu.value_or("0")); per_cpu && !r.mem)
    request.mem_mib = *per_cpu * request.cpus;
  return request;
}

std::int64_t nodes_of(const JobSpec& component) {
  return component.resources.nodes ? component.resources.nodes->max : 1;
}

std::optional<std::size_t> find_component(const JobSpec& spec, std::string_view name) {
  const auto& all = spec.components;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const ComponentSpec& one) { return one.name == name; });
  if (found == all.end()) return std::nullopt;
  return static_cast<std::size_t>(found - all.begin());
}

std::string name_in_variables(std::string_view component) {
  std::string text;
  for (const char c : component) {
    const bool is_lowercase = c >= 'a' && c <= 'z';
    text += c == '-' ? '_' : is_lowercase ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return text;
}

std::vector<std::string> find_waiting_cycle(const JobSpec& spec) {
  return find_waiting_cycle(spec.components);
}

}  // namespace dlrun
