#include "runtime/agent/component_options.h"

#include <algorithm>
#include <map>

#include "common/text.h"
#include "common/waiting_cycle.h"

namespace dlrun::agent {
namespace {

bool is_ascii_letter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

}  // namespace

bool is_component_name(std::string_view name) {
  return !name.empty() && name.size() <= kComponentNameLimitBytes && is_ascii_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return is_ascii_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_';
         });
}

std::string component_of(const Env& env) {
  auto name = env.get_or("DLRUN_COMPONENT", "");
  return env.has("DLRUN_LEAD") && is_component_name(name) ? name : std::string();
}

std::string variable_word(std::string_view component) {
  std::string text(component);
  for (auto& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (c == '-') c = '_';
  }
  return text;
}

Result<> check_component(const ComponentOptions& component) {
  const auto& name = component.name;
  if (!is_component_name(name)) {
    return fail(Errc::kUsage,
                "--component '{}': a name begins with a letter, has only letters, digits, '-' and "
                "'_', and has at most {} characters",
                printable(name), kComponentNameLimitBytes);
  }
  if (component.node_count < 1 || component.rank_count < component.node_count)
    return fail(Errc::kUsage,
                "component '{}' has --component-nodes {} and --component-ranks {}; it needs at "
                "least one node, and at least one rank for each node",
                name, component.node_count, component.rank_count);
  if (component.het_group.has_value() == component.first_node.has_value())
    return fail(Errc::kUsage,
                "component '{}' has {} --component-first-node {} --het-group; it needs one of the "
                "two",
                name, component.het_group ? "both" : "neither",
                component.het_group ? "and" : "nor");
  if (component.ready.kind != ReadyCheck::Kind::kJoined && component.port_count == 0)
    return fail(Errc::kUsage, "component '{}': --ready-http and --ready-tcp need --port-count 1",
                name);
  if (component.retries > 0 && component.role == ComponentRole::kMain)
    return fail(Errc::kUsage,
                "component '{}': only a service can have --component-retry; if a main component "
                "fails, the attempt ends, and --retry restarts the run",
                name);
  const auto rank =
      std::find(component.srun_arguments.begin(), component.srun_arguments.end(), "rank");
  const auto program = std::find(rank, component.srun_arguments.end(), "--");
  if (rank == component.srun_arguments.begin() || component.srun_arguments.end() - program < 2)
    return fail(Errc::kUsage,
                "component '{}': its command is not `SRUN-OPTIONS... dlrun-agent rank ... -- "
                "PROGRAM...`",
                name);
  return {};
}

Result<> check_components(const std::vector<ComponentOptions>& components) {
  if (components.size() > kComponentsLimit)
    return fail(Errc::kUsage, "{} components; lead serves at most {}", components.size(),
                kComponentsLimit);
  std::map<std::string, std::string> name_of_word;
  for (const auto& one : components) {
    const auto [other, is_new] = name_of_word.emplace(variable_word(one.name), one.name);
    if (!is_new) {
      return fail(Errc::kUsage,
                  "the components '{}' and '{}' would share the variable DLRUN_COMPONENT_{}_ADDR",
                  other->second, one.name, other->first);
    }
  }
  for (const auto& one : components) {
    for (const auto& other : one.after) {
      const bool is_known =
          std::any_of(components.begin(), components.end(),
                      [&](const ComponentOptions& known) { return known.name == other; });
      if (!is_known)
        return fail(Errc::kUsage, "component '{}' has --after '{}', which is no component",
                    one.name, printable(other));
    }
  }
  if (const auto cycle = find_waiting_cycle(components); !cycle.empty())
    return fail(Errc::kUsage,
                "--after: the components wait for each other, so that none would start: {}",
                join(cycle, " -> "));
  if (std::none_of(components.begin(), components.end(),
                   [](const ComponentOptions& one) { return one.role == ComponentRole::kMain; }))
    return fail(Errc::kUsage, "no component has --role main; the job would never end");
  const bool is_het = components.front().het_group.has_value();
  for (const auto& one : components) {
    if (one.het_group.has_value() != is_het)
      return fail(Errc::kUsage, "either all components have --het-group or none has it");
  }
  return {};
}

const ComponentOptions& first_main_component(const std::vector<ComponentOptions>& components) {
  return *std::find_if(components.begin(), components.end(), [](const ComponentOptions& one) {
    return one.role == ComponentRole::kMain;
  });
}

}  // namespace dlrun::agent
