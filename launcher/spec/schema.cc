// Builds the schema from the key table, with one overload per type of member.
#include "launcher/spec/schema.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/sweep_setter.h"
#include "launcher/spec/value_setter.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

// Regular expressions in the subset that ECMA 262 and Python share.
constexpr std::string_view kPrintable = R"(^[^\u0000-\u001f\u007f]+$)";
constexpr std::string_view kSlugPattern = R"(^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$)";
constexpr std::string_view kWholePattern = R"(^[+-]?[0-9]{1,19}$)";
constexpr std::string_view kNumberPattern =
    R"(^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$)";
constexpr std::string_view kNodesPattern = R"(^[0-9]{1,9}(-[0-9]{1,9})?$)";
constexpr std::string_view kGpusPattern = R"(^([A-Za-z0-9._+-]{1,64}:)?[0-9]{1,9}$)";
constexpr std::string_view kDurationPattern =
    R"(^([0-9]{1,9}|(?=[0-9])([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?)$)";
constexpr std::string_view kTimePattern =
    R"(^(([0-9]{1,9}-)?[0-9]{1,9}(:[0-9]{1,9}){0,2})"
    R"(|(?=[0-9])([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?)"
    R"(|[Uu][Nn][Ll][Ii][Mm][Ii][Tt][Ee][Dd]|[Ii][Nn][Ff][Ii][Nn][Ii][Tt][Ee])$)";
constexpr std::string_view kHostsPattern = R"(^[A-Za-z0-9._,\[\]-]+$)";
constexpr std::string_view kMemoryPattern = R"(^[0-9]{1,9}([KMGTkmgt][Bb]?)?$)";
constexpr std::string_view kIntervalPattern = R"(^((1 )?epoch|[0-9]{1,9} +steps?)$)";
constexpr std::string_view kUrlPattern = R"(^(https?://[^@/?#]+/[!-~]+|.*\$\{.*)$)";
constexpr std::string_view kFilePattern =
    R"(^[^./\u0000-\u001f\u007f][^/\u0000-\u001f\u007f]{0,199}$)";
constexpr std::string_view kOptionName = R"(^[a-z][a-z0-9-]*$)";

[[nodiscard]] std::string variable_name_pattern() {
  return fmt::format("^(?!DLRUN_|dlrun_|SLURM_({}))(?!({})$)[A-Za-z_][A-Za-z0-9_]*$",
                     fmt::join(kVariablesOfJob, "|"), fmt::join(kVariablesOfBash, "|"));
}

/// Accepts ${NAME}, whose value is known only at submission.
[[nodiscard]] Json variable() {
  return {{"$ref", "#/definitions/variable"}};
}

[[nodiscard]] Json any_of(std::initializer_list<Json> alternatives) {
  Json list = Json::array();
  for (const Json& alternative : alternatives) list.push_back(alternative);
  return {{"anyOf", std::move(list)}};
}

[[nodiscard]] Json text(std::string_view pattern) {
  return {{"type", "string"}, {"pattern", pattern}};
}

/// Accepts text that YAML may read as a number or a boolean: `name: 4711` is the name "4711".
[[nodiscard]] Json scalar(std::string_view pattern = {}) {
  Json schema{{"type", {"string", "number", "boolean"}}};
  if (!pattern.empty()) schema["pattern"] = pattern;
  return schema;
}

[[nodiscard]] Json whole_number(double min, double max) {
  Json schema{{"type", "integer"}, {"minimum", static_cast<std::int64_t>(min)}};
  if (max > 0) schema["maximum"] = static_cast<std::int64_t>(max);
  return schema;
}

/// Returns the schema of a text in the row's format.
[[nodiscard]] Json formatted(const KeyRow& row) {
  switch (row.format) {
    case Format::kLines:
      return scalar();
    case Format::kText:
    case Format::kPath:
    case Format::kMaybePath:
    case Format::kImage:
    case Format::kFlag:
      return scalar(kPrintable);
    case Format::kPattern:
      return text(R"(^[^\u0000-\u001f\u007f\\]+$)");
    case Format::kSlug:
      return any_of({{{"type", {"string", "number"}}, {"pattern", kSlugPattern}}, variable()});
    case Format::kChoice: {
      Json words = Json::array();
      for (std::string_view word : split(row.choices, ' ')) words.push_back(word);
      return any_of({{{"enum", words}}, variable()});
    }
    case Format::kInside:
      return any_of({text(R"(^/[^\u0000-\u001f\u007f]*$)"), variable()});
    case Format::kTime:
      return any_of({whole_number(1, 0), text(kTimePattern), variable()});
    case Format::kDuration:
      return any_of({whole_number(0, 0), text(kDurationPattern), variable()});
    case Format::kMemory:
      return any_of({whole_number(0, 0), text(kMemoryPattern), variable()});
    case Format::kInterval:
      return any_of({text(kIntervalPattern), variable()});
    case Format::kHosts:
      return any_of({scalar(kHostsPattern), variable()});
    case Format::kCount:
      return any_of({whole_number(1, 1e9), text(kWholePattern), variable()});
  }
  return scalar();
}

/// Accepts the keys that a sweep may set.
[[nodiscard]] Json swept_name() {
  Json names = Json::array();
  for (const KeyRow& row : spec_keys()) {
    if (why_not_swept(row.path).empty()) names.push_back(row.path);
  }
  Json taken = Json::array();
  for (std::string_view name : names_in_section("")) taken.push_back(name);
  return any_of(
      {{{"enum", std::move(names)}},
       {{"pattern", R"(^(environment\.vars|slurm|launch\.srun)\..+$)"}},
       {{"pattern", R"(^[A-Za-z_][A-Za-z0-9_]{0,63}$)"}, {"not", {{"enum", std::move(taken)}}}}});
}

/// Returns the schema for the type of a row's field; called by std::visit.
struct SchemaOf {
  const KeyRow& row;

  Json operator()(std::monostate) const { return false; }
  Json operator()(Access<std::optional<std::string>>) const { return formatted(row); }
  Json operator()(Access<std::optional<bool>>) const {
    return any_of({{{"type", "boolean"}},
                   {{"enum", {"true", "false", "True", "False", "TRUE", "FALSE"}}},
                   variable()});
  }
  Json operator()(Access<std::optional<std::int64_t>>) const {
    return any_of({whole_number(row.min, row.max), text(kWholePattern), variable()});
  }
  Json operator()(Access<std::optional<double>>) const {
    return any_of({{{"type", "number"}, {"minimum", row.min}, {"maximum", row.max}},
                   text(kNumberPattern),
                   variable()});
  }
  Json operator()(Access<std::optional<NodeRange>>) const {
    return any_of({whole_number(1, 1e6), text(kNodesPattern), variable()});
  }
  Json operator()(Access<std::optional<Gpus>>) const {
    const Json type = any_of(
        {{{"type", {"string", "number"}}, {"pattern", "^[A-Za-z0-9._+-]{1,64}$"}}, variable()});
    const Json count = any_of({whole_number(0, 1e6), text("^[0-9]{1,9}$"), variable()});
    return any_of({whole_number(0, 1e6),
                   text(kGpusPattern),
                   variable(),
                   {{"type", "object"},
                    {"properties", {{"type", type}, {"count", count}}},
                    {"required", {"count"}},
                    {"additionalProperties", false}}});
  }
  Json operator()(Access<std::vector<std::string>>) const {
    const Json item = formatted(row);
    Json list{{"type", "array"}, {"items", item}};
    if (row.path != "launch.command"_key) return any_of({list, item});
    list["minItems"] = 1;
    return list;
  }
  Json operator()(Access<NamedValues>) const {
    return {{"type", "object"},
            {"propertyNames", {{"pattern", variable_name_pattern()}}},
            {"additionalProperties", {{"type", {"string", "number", "boolean", "null"}}}}};
  }
  Json operator()(Access<std::vector<SlurmOption>>) const {
    Json refused = Json::array();
    for (std::string_view name : refused_option_names(row)) refused.push_back(name);
    const Json word{{"type", {"string", "number", "boolean", "null"}}};
    return {{"type", "object"},
            {"propertyNames", {{"pattern", kOptionName}, {"not", {{"enum", refused}}}}},
            {"additionalProperties",
             any_of({word, {{"type", "array"}, {"items", scalar(kPrintable)}}})}};
  }
  Json operator()(Access<std::vector<SecretSource>>) const {
    const Json name = text(variable_name_pattern());
    const Json map{{"type", "object"},
                   {"properties", {{"name", name}, {"file", scalar(kPrintable)}}},
                   {"required", {"name", "file"}},
                   {"additionalProperties", false}};
    return {{"type", "array"}, {"items", any_of({name, map})}};
  }
  Json operator()(Access<std::vector<SweptKey>>) const {
    const Json number{{"type", {"number", "string"}}};
    const Json range{
        {"type", "object"},
        {"properties", {{"min", number}, {"max", number}, {"log", {{"type", "boolean"}}}}},
        {"required", {"min", "max"}},
        {"additionalProperties", false}};
    return {{"type", "object"},
            {"minProperties", 1},
            {"propertyNames", swept_name()},
            {"additionalProperties", any_of({{{"type", "array"}, {"minItems", 1}}, range})}};
  }
  Json operator()(Access<std::vector<SweepPoint>>) const {
    return {{"type", "array"},
            {"minItems", 1},
            {"items", {{"type", "object"}, {"minProperties", 1}, {"propertyNames", swept_name()}}}};
  }
  Json operator()(Access<std::vector<Download>>) const {
    const Json map{{"type", "object"},
                   {"properties",
                    {{"url", text(kUrlPattern)},
                     {"sha256", any_of({text("^[0-9A-Fa-f]{64}$"), variable()})},
                     {"file", text(kFilePattern)},
                     {"bytes", any_of({whole_number(0, 0), text(kWholePattern), variable()})}}},
                   {"required", {"url", "sha256"}},
                   {"additionalProperties", false}};
    return {{"type", "array"}, {"items", map}};
  }
  Json operator()(Access<std::vector<Mount>>) const {
    const Json flag = scalar("^[A-Za-z0-9=_-]+$");
    const Json map{{"type", "object"},
                   {"properties",
                    {{"source", scalar(kPrintable)},
                     {"target", scalar(kPrintable)},
                     {"flags", any_of({{{"type", "array"}, {"items", flag}}, flag})}}},
                   {"required", {"source"}},
                   {"additionalProperties", false}};
    return {
        {"type", "array"},
        {"items",
         any_of({scalar(R"(^[^:\u0000-\u001f\u007f]+(:[^:\u0000-\u001f\u007f]+){0,2}$)"), map})}};
  }
};

/// Accepts null as well.
[[nodiscard]] Json or_nothing(Json schema) {
  if (!schema.contains("anyOf")) schema = any_of({std::move(schema)});
  schema["anyOf"].push_back({{"type", "null"}});
  return schema;
}

[[nodiscard]] Json key_schema(const KeyRow& row) {
  std::string description(row.help);
  if (!row.fallback.empty()) description += fmt::format(" Default: {}.", row.fallback);
  Json schema{{"description", description}};
  schema.update(or_nothing(std::visit(SchemaOf{row}, row.field)));
  return schema;
}

/// Returns the schema of a section: its map, or the single value that its shorthand takes.
[[nodiscard]] Json section_schema(const std::string& section) {
  Json properties = Json::object();
  for (std::string_view name : names_in_section(section)) {
    const std::string path =
        section.empty() ? std::string(name) : section + "." + std::string(name);
    if (const KeyRow* row = find_key(path)) {
      if (row->is_supported()) properties[std::string(name)] = key_schema(*row);
    } else if (Json below = section_schema(path); !below.is_null()) {
      properties[std::string(name)] = std::move(below);
    }
  }
  if (properties.empty()) return nullptr;
  const Json map{
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (section.empty()) return map;
  Json alternatives = Json::array({map});
  if (const auto shorthand = section_shorthand(section); !shorthand.empty()) {
    const Json value = std::visit(SchemaOf{*find_key(shorthand)}, find_key(shorthand)->field);
    if (value.contains("anyOf")) {
      for (const Json& form : value["anyOf"]) alternatives.push_back(form);
    } else {
      alternatives.push_back(value);
    }
  }
  alternatives.push_back({{"type", "null"}});
  return {{"anyOf", std::move(alternatives)}};
}

}  // namespace

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
