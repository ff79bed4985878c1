// Builds the schema from the key table.
#include "launcher/spec/schema.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "launcher/spec/schema_parts.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/value_functions.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

using schema_parts::any_of;
using schema_parts::section_schema;

/// Returns the schema with null as an additional alternative.
[[nodiscard]] Json or_null(Json schema) {
  if (!schema.contains("anyOf")) schema = any_of({std::move(schema)});
  schema["anyOf"].push_back({{"type", "null"}});
  return schema;
}

[[nodiscard]] Json key_schema(const KeyRow& row) {
  std::string description(row.help);
  if (!row.fallback.empty()) description += fmt::format(" Default: {}.", row.fallback);
  Json schema{{"description", description}};
  schema.update(or_null(value_schema(row)));
  return schema;
}

}  // namespace

Json schema_parts::section_schema(const std::string& section) {
  Json properties = Json::object();
  for (std::string_view name : names_in_section(section)) {
    const std::string path =
        section.empty() ? std::string(name) : section + "." + std::string(name);
    if (const KeyRow* row = find_key(path)) {
      if (row->is_supported()) properties[std::string(name)] = key_schema(*row);
    } else if (Json subsection = section_schema(path); !subsection.is_null()) {
      properties[std::string(name)] = std::move(subsection);
    }
  }
  if (properties.empty()) return nullptr;
  const Json map{
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (section.empty()) return map;
  Json alternatives = Json::array({map});
  if (const auto key = key_of_single_value(section); !key.empty()) {
    const Json value = value_schema(*find_key(key));
    if (value.contains("anyOf")) {
      for (const Json& form : value["anyOf"]) alternatives.push_back(form);
    } else {
      alternatives.push_back(value);
    }
  }
  alternatives.push_back({{"type", "null"}});
  return {{"anyOf", std::move(alternatives)}};
}

std::string spec_schema() {
  Json schema{
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"title", "dlrun experiment"},
      {"description", "One deep-learning job: what `dlrun submit` reads. Made by `dlrun schema`."}};
  schema.update(section_schema(""));
  schema["definitions"]["variable"] = {
      {"description", "${NAME}: replaced at submission from the environment"},
      {"type", "string"},
      {"pattern", R"(\$\{[A-Za-z_][A-Za-z0-9_]*\})"}};
  return schema.dump(2) + "\n";
}

}  // namespace dlrun
