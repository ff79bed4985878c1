// The value of `components`: a list of maps, one for each program of a job.
#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "launcher/spec/component_reader.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/load.h"
#include "launcher/spec/schema_parts.h"
#include "launcher/spec/value_type.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

using namespace schema_parts;

constexpr std::string_view kComponentNamePattern = R"(^[A-Za-z][A-Za-z0-9_-]{0,31}$)";

/// A value in a map. flow_map() writes the map with all its values on one line.
struct FlowValue {
  std::vector<std::string> names;  ///< the names of the maps around the value, then its own name
  std::string yaml;
  std::string path{};  ///< the key in the origins of ComponentSpec::own
};

/// Returns the values as one line of YAML. All values have the same first `depth` names; values
/// below the same name are neighbours.
[[nodiscard]] std::string flow_map(std::span<const FlowValue> values, std::size_t depth = 0) {
  std::string text = "{";
  for (std::size_t i = 0; i < values.size();) {
    const std::string& name = values[i].names[depth];
    std::size_t end = i + 1;
    while (end < values.size() && values[end].names[depth] == name) ++end;
    const bool is_value = values[i].names.size() == depth + 1;
    text +=
        fmt::format("{}{}: {}", i == 0 ? "" : ", ", name,
                    is_value ? values[i].yaml : flow_map(values.subspan(i, end - i), depth + 1));
    i = end;
  }
  return text + "}";
}

[[nodiscard]] std::string flow_names(const std::vector<std::string>& names) {
  std::string text = "[";
  for (const std::string& name : names) text += (text.size() == 1 ? "" : ", ") + quoted_yaml(name);
  return text + "]";
}

/// Returns the value that a component gives to a key of the spec, as YAML. If the component removes
/// the inherited value, returns null, or false for an option of srun.
[[nodiscard]] std::string value_of_spec_key(const JobSpec& own, std::string_view path) {
  if (const KeyRow* row = find_key(path)) return value_yaml(*row, own).value_or("null");
  for (const KeyRow& row : spec_keys()) {
    if (!path.starts_with(row.path) || path.size() <= row.path.size() ||
        path[row.path.size()] != '.')
      continue;
    for (const auto& [name, yaml] : entries_yaml(row, own)) {
      if (name == path.substr(row.path.size() + 1)) return yaml;
    }
    return row.path == "launch.srun"_key ? "false" : "null";
  }
  return "null";
}

/// Returns the values that a component gives to keys of the spec, such as `resources`, in the order
/// of spec_keys_of_components(). Leaves out the keys that only components have, such as `after`.
[[nodiscard]] std::vector<FlowValue> values_of_spec_keys(const ComponentSpec& component) {
  std::vector<FlowValue> values;
  for (const ComponentKey& key : spec_keys_of_components()) {
    for (const std::string& path : component.keys) {
      const auto names = path_in_component(path);
      if (names.front() != key.name) continue;
      values.push_back(
          {{names.begin(), names.end()}, value_of_spec_key(component.own, path), path});
    }
  }
  return values;
}

/// Returns all values that a component gives. The component's name comes first.
[[nodiscard]] std::vector<FlowValue> all_values(const ComponentSpec& component) {
  std::vector<FlowValue> values{{{"name"}, quoted_yaml(component.name), "component.name"}};
  const auto add = [&](std::vector<std::string> names, std::string yaml) {
    std::string path = "component." + names.front();
    values.push_back({std::move(names), std::move(yaml), std::move(path)});
  };
  if (component.is_service) add({"role"}, "service");
  for (FlowValue& value : values_of_spec_keys(component)) values.push_back(std::move(value));
  if (component.ready) {
    const ReadySpec& ready = *component.ready;
    if (ready.http) add({"ready", "http"}, quoted_yaml(*ready.http));
    if (ready.tcp) add({"ready", "tcp"}, "true");
    if (ready.timeout_s) add({"ready", "timeout"}, fmt::format("{}", *ready.timeout_s));
  }
  if (component.retry_max) add({"retry", "max"}, fmt::format("{}", *component.retry_max));
  if (!component.after.empty()) add({"after"}, flow_names(component.after));
  if (!component.shares.empty()) add({"shares"}, quoted_yaml(component.shares));
  return values;
}

}  // namespace

std::vector<EffectiveValue> own_values_of_component(const ComponentSpec& component) {
  std::vector<EffectiveValue> values;
  const Origins& origins = component.own.origins;
  for (const FlowValue& value : all_values(component)) {
    const auto origin = origins.find(value.path);
    values.push_back({fmt::format("components.{}.{}", component.name, join(value.names, ".")),
                      value.yaml, origin == origins.end() ? Origin{} : origin->second});
  }
  return values;
}

using Components = ValueType<std::vector<ComponentSpec>>;

void Components::set(const ValueReader& in, Access<std::vector<ComponentSpec>> member) {
  if (auto components = ComponentReader{in.builder, in.layer, in.row}.read_components(in.node))
    in.put(member, Result<std::vector<ComponentSpec>>(std::move(*components)));
}

ValueJson Components::schema(const KeyRow&) {
  const ValueJson name = any_of({text(kComponentNamePattern), variable()});
  const ValueJson seconds = any_of({whole_number(1, 0), text(kDurationPattern), variable()});
  const ValueJson names = any_of({{{"type", "array"}, {"items", name}}, name});
  const ValueJson ready{{"type", "object"},
                        {"properties",
                         {{"http", any_of({text("^/[^ \\t]*$"), variable()})},
                          {"tcp", {{"type", "boolean"}}},
                          {"timeout", seconds}}},
                        {"additionalProperties", false}};
  const ValueJson retry{{"type", "object"},
                        {"properties", {{"max", any_of({whole_number(0, 1000), variable()})}}},
                        {"additionalProperties", false}};
  ValueJson properties{{"name", name},
                       {"role", {{"enum", {"main", "service"}}}},
                       {"ready", any_of({ready, {{"const", "tcp"}}})},
                       {"retry", retry},
                       {"after", names},
                       {"shares", name}};
  for (const ComponentKey& key : spec_keys_of_components()) {
    const KeyRow* row = find_key(key.path);
    properties[std::string(key.name)] = row != nullptr
                                            ? any_of({value_schema(*row), {{"type", "null"}}})
                                            : section_schema(std::string(key.path));
  }
  return {{"type", "array"},
          {"minItems", 1},
          {"items",
           {{"type", "object"},
            {"properties", std::move(properties)},
            {"required", {"name"}},
            {"additionalProperties", false}}}};
}

std::string Components::description(const KeyRow&) {
  return "list of maps, one for each component";
}

MaybeText Components::yaml(const std::vector<ComponentSpec>& value) {
  if (value.empty()) return std::nullopt;
  std::string text = "[";
  for (const ComponentSpec& component : value)
    text += (text.size() == 1 ? "" : ", ") + flow_map(all_values(component));
  return text + "]";
}

}  // namespace dlrun
