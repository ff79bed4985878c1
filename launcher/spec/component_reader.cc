#include "launcher/spec/component_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "common/record_words.h"
#include "common/text.h"
#include "launcher/spec/value_setter.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

constexpr std::size_t kMostComponents = 32;
constexpr std::size_t kLongestComponentName = 32;
constexpr std::int64_t kMostComponentRestarts = 1000;

/// The keys and sections of a spec that a component can also have, with their names in a component.
constexpr std::array<ComponentKey, 12> kInheritedKeys{{
    {"nodes", "resources.nodes"},
    {"tasks_per_node", "resources.tasks_per_node"},
    {"gpus_per_node", "resources.gpus_per_node"},
    {"cpus_per_task", "resources.cpus_per_task"},
    {"mem", "resources.mem"},
    {"partition", "resources.partition"},
    {"constraint", "resources.constraint"},
    {"account", "resources.account"},
    {"qos", "resources.qos"},
    {"launch", "launch"},
    {"container", "container"},
    {"vars", "environment.vars"},
}};

constexpr std::array<std::string_view, 6> kComponentOnlyKeys{"name",  "role",  "ready",
                                                             "retry", "after", "shares"};

/// Returns true for a name that can be part of a variable's name and of a folder's name.
[[nodiscard]] bool is_component_name(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !name.empty() && name.size() <= kLongestComponentName && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
         });
}

/// Returns the message with a key's name as it is in a component: "resources.nodes: ..." ->
/// "nodes: ...".
[[nodiscard]] std::string_view without_section(std::string_view message) {
  for (const std::string_view section : {"resources.", "environment."}) {
    if (message.starts_with(section)) message.remove_prefix(section.size());
  }
  return message;
}

[[nodiscard]] const YamlNode* value_of_key(
    const std::vector<std::pair<const YamlNode*, const YamlNode*>>& entries, std::string_view key) {
  for (const auto& [name, value] : entries) {
    if (name->text == key) return value;
  }
  return nullptr;
}

}  // namespace

std::span<const ComponentKey> spec_keys_of_components() {
  return kInheritedKeys;
}

std::vector<std::string_view> path_in_component(std::string_view path) {
  for (const ComponentKey& key : kInheritedKeys) {
    if (path == key.path) return {key.name};
    if (path.starts_with(key.path) && path[key.path.size()] == '.') {
      std::vector<std::string_view> names{key.name};
      for (const std::string_view name : split(path.substr(key.path.size() + 1), '.'))
        names.push_back(name);
      return names;
    }
  }
  return {path};
}

void ComponentReader::refuse(Reading& reading, const YamlNode& at, std::string_view why) const {
  reading.is_fine = false;
  builder.error(layer, at, row.path, fmt::format("{}: {}", reading.title, why));
}

std::optional<std::string> ComponentReader::text(Reading& reading, const YamlNode& value,
                                                 std::string_view expected) const {
  auto found = builder.text(layer, row, value, expected);
  if (found) return std::move(*found);
  refuse(reading, value, found.error().message);
  return std::nullopt;
}

std::optional<std::vector<ComponentSpec>> ComponentReader::read_components(
    const YamlNode& node) const {
  const auto refuse_list = [&](const YamlNode& at, std::string_view why) {
    builder.error(layer, at, row.path, fmt::format("components: {}", why));
    return std::nullopt;
  };
  if (node.kind != YamlNode::Kind::kSequence)
    return refuse_list(node, fmt::format("expected a list of maps, such as [{{name: trainer, "
                                         "nodes: 2}}], not {}",
                                         kind_name(node)));
  if (node.items.empty())
    return refuse_list(node, "the list is empty; list at least one component");
  if (node.items.size() > kMostComponents)
    return refuse_list(node, fmt::format("has {} components; a job can have at most {}",
                                         node.items.size(), kMostComponents));
  std::vector<ComponentSpec> found;
  bool is_fine = true;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    auto one = read_component(layer.document.at(node.items[i]), i);
    if (one) found.push_back(std::move(*one));
    is_fine = is_fine && one.has_value();
  }
  if (!is_fine) return std::nullopt;
  return found;
}

std::optional<ComponentSpec> ComponentReader::read_component(const YamlNode& item,
                                                             std::size_t index) const {
  Reading reading{
      {}, SpecBuilder(builder.env_, builder.unset_variable_), fmt::format("components[{}]", index)};
  if (item.kind != YamlNode::Kind::kMap) {
    refuse(reading, item,
           fmt::format("expected a map with a name, such as {{name: trainer, nodes: 2}}, not {}",
                       kind_name(item)));
    return std::nullopt;
  }
  const auto entries = builder.entries(layer, item, reading.title);
  // entries() reports and omits a key that is given twice.
  reading.is_fine = 2 * entries.size() == item.items.size();
  const YamlNode* name = value_of_key(entries, "name");
  if (name == nullptr) {
    refuse(reading, item, "name is missing; each component needs a name");
  } else if (const auto given = text(reading, *name, "a name")) {
    if (is_component_name(*given)) {
      reading.title = fmt::format("component '{}'", *given);
    } else {
      refuse(reading, *name,
             fmt::format("'{}' cannot be the name of a component: a name has at most {} letters, "
                         "digits, '_' and '-', and starts with a letter",
                         printable(*given), kLongestComponentName));
    }
    reading.component.name = *given;
  }
  for (const auto& [key, value] : entries) read_key(reading, *key, *value);
  take_own_spec(reading);
  Origins& origins = reading.component.own.origins;
  origins["component"] = builder.origin(layer, item);
  if (!reading.is_fine) return std::nullopt;
  return std::move(reading.component);
}

void ComponentReader::read_key(Reading& reading, const YamlNode& name,
                               const YamlNode& value) const {
  for (const ComponentKey& key : kInheritedKeys) {
    if (name.text != key.name) continue;
    const auto id = static_cast<YamlId>(&value - layer.document.nodes.data());
    return reading.own_builder.apply_at(layer.document, id, key.path, layer.source);
  }
  if (std::find(kComponentOnlyKeys.begin(), kComponentOnlyKeys.end(), name.text) !=
      kComponentOnlyKeys.end()) {
    if (value.kind == YamlNode::Kind::kNull) {
      if (name.text == "name") return;  // read_component() has reported the error
      return builder.warn(
          layer, value,
          fmt::format("{}: {} has no value and counts as not given", reading.title, name.text));
    }
    return read_component_only_key(reading, name.text, value);
  }
  if (const auto key = key_lacking_space(name.text); !key.empty()) {
    return refuse(
        reading, name,
        fmt::format("unknown key '{}'; a space is missing after '{}'", printable(name.text), key));
  }
  std::vector<std::string_view> names(kComponentOnlyKeys.begin(), kComponentOnlyKeys.end());
  for (const ComponentKey& key : kInheritedKeys) names.push_back(key.name);
  const auto similar = nearest(name.text, names);
  std::string known;
  for (const std::string_view one : names) known += fmt::format(" {}", one);
  refuse(reading, name,
         fmt::format("unknown key '{}'; {}", printable(name.text),
                     similar ? fmt::format("did you mean '{}'?", *similar)
                             : "a component has the keys" + known));
}

void ComponentReader::read_component_only_key(Reading& reading, std::string_view name,
                                              const YamlNode& value) const {
  ComponentSpec& component = reading.component;
  component.own.origins[fmt::format("component.{}", name)] = builder.origin(layer, value);
  if (name == "role") {
    const auto role = text(reading, value, "main or service");
    if (!role) return;
    const auto known = of_word<ComponentRole>(*role);
    component.is_service = known == ComponentRole::kService;
    if (!known)
      refuse(reading, value,
             fmt::format("role: '{}' is not one of: main service", printable(*role)));
  } else if (name == "ready") {
    read_ready(reading, value);
  } else if (name == "retry") {
    read_retry(reading, value);
  } else if (name == "after") {
    read_names(reading, value, component.after);
  } else if (name == "shares") {
    component.shares = text(reading, value, "the name of a component").value_or("");
  }
}

void ComponentReader::read_ready(Reading& reading, const YamlNode& value) const {
  ReadySpec ready;
  if (value.kind == YamlNode::Kind::kScalar) {
    const auto way = text(reading, value, "tcp, or a map");
    if (!way) return;
    if (*way != "tcp")
      return refuse(reading, value,
                    fmt::format("ready: expected tcp, or a map with http, tcp or timeout, not '{}'",
                                printable(*way)));
    ready.tcp = true;
  } else if (value.kind == YamlNode::Kind::kMap) {
    for (const auto& [name, item] : builder.entries(layer, value, reading.title + ": ready"))
      read_ready_key(reading, *name, *item, ready);
  } else {
    return refuse(reading, value,
                  fmt::format("ready: expected tcp, or a map with http, tcp or timeout, not {}",
                              kind_name(value)));
  }
  if (ready.http && ready.tcp)
    refuse(reading, value,
           "ready: http and tcp exclude each other; http also checks that the port accepts "
           "connections");
  reading.component.ready = std::move(ready);
}

void ComponentReader::read_ready_key(Reading& reading, const YamlNode& name, const YamlNode& value,
                                     ReadySpec& ready) const {
  const auto given = text(reading, value, "one value");
  if (!given) return;
  if (name.text == "http") {
    if (!given->starts_with('/') || given->find_first_of(" \t") != std::string::npos)
      return refuse(reading, value,
                    fmt::format("ready.http: '{}' is not the path of a URL, such as /health",
                                printable(*given)));
    ready.http = *given;
  } else if (name.text == "tcp") {
    if (*given != "true" && *given != "false")
      return refuse(reading, value, "ready.tcp: expected true or false");
    ready.tcp = *given == "true";
  } else if (name.text == "timeout") {
    const auto seconds = parse_duration(*given);
    if (!seconds) return refuse(reading, value, "ready.timeout: " + seconds.error().message);
    if (*seconds < 1)
      return refuse(reading, value, "ready.timeout is 0 s: the service could never become ready");
    ready.timeout_s = *seconds;
  } else {
    refuse(reading, name,
           fmt::format("ready: unknown key '{}'; ready has http, tcp and timeout",
                       printable(name.text)));
  }
}

void ComponentReader::read_retry(Reading& reading, const YamlNode& value) const {
  if (value.kind != YamlNode::Kind::kMap)
    return refuse(reading, value,
                  fmt::format("retry: expected {{max: N}}, not {}", kind_name(value)));
  for (const auto& [name, item] : builder.entries(layer, value, reading.title + ": retry")) {
    if (name->text != "max") {
      refuse(reading, *name,
             fmt::format("retry: unknown key '{}'; the only key of a component's retry is max",
                         printable(name->text)));
      continue;
    }
    const auto given = text(reading, *item, "a whole number");
    if (!given) continue;
    const auto max = parse_int(*given);
    if (max && *max >= 0 && *max <= kMostComponentRestarts) {
      reading.component.retry_max = *max;
    } else {
      refuse(reading, *item,
             fmt::format("retry.max: '{}' is not a whole number from 0 to {}", printable(*given),
                         kMostComponentRestarts));
    }
  }
}

void ComponentReader::read_names(Reading& reading, const YamlNode& value,
                                 std::vector<std::string>& into) const {
  const auto add = [&](const YamlNode& node) {
    if (auto name = text(reading, node, "the name of a component, or a list of names")) {
      if (std::find(into.begin(), into.end(), *name) == into.end())
        into.push_back(std::move(*name));
    }
  };
  if (value.kind != YamlNode::Kind::kSequence) return add(value);
  for (const YamlId id : value.items) add(layer.document.at(id));
}

void ComponentReader::take_own_spec(Reading& reading) const {
  for (Diagnostic& found : reading.own_builder.diagnostics()) {
    if (is_error(found)) reading.is_fine = false;
    found.message = fmt::format("{}: {}", reading.title, without_section(found.message));
    builder.report(std::move(found));
  }
  if (!reading.own_builder.refused().empty()) reading.is_fine = false;
  if (!reading.is_fine) builder.refused_.emplace(row.path);
  // read_component_only_key() has put the origins of name, role, ready, ... into component.own. The
  // next lines replace component.own, so these origins are saved and merged into the new value.
  Origins saved = std::move(reading.component.own.origins);
  reading.component.own = std::move(reading.own_builder.spec());
  reading.component.own.origins.merge(saved);
  reading.component.keys.assign(reading.own_builder.decided_.begin(),
                                reading.own_builder.decided_.end());
}

}  // namespace dlrun
