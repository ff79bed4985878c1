// Values that are lists of data to copy: stage and outputs.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "launcher/spec/schema_parts.h"
#include "launcher/spec/value_type.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

constexpr std::string_view kNodePathPattern =
    R"(^\$[A-Za-z_][A-Za-z0-9_]*/[^$\u0000-\u001f\u007f]+$)";

[[nodiscard]] ValueJson list_of_maps(ValueJson properties, ValueJson required) {
  return {{"type", "array"},
          {"items",
           {{"type", "object"},
            {"properties", std::move(properties)},
            {"required", std::move(required)},
            {"additionalProperties", false}}}};
}

}  // namespace

using StageList = ValueType<std::vector<StagedData>>;

void StageList::set(const ValueReader& in, Access<std::vector<StagedData>> member) {
  in.put_items(member, "a list of {from, to}", [&](const YamlNode& item, const auto& before) {
    return in.item_reader().read_staged_data(item, before);
  });
}

ValueJson StageList::schema(const KeyRow&) {
  using namespace schema_parts;
  return list_of_maps({{"from", scalar(kPrintablePattern)},
                       {"to", any_of({text(kNodePathPattern), variable()})},
                       {"unpack", any_of({ValueJson{{"type", "boolean"}}, variable()})}},
                      ValueJson::array({"from", "to"}));
}

std::string StageList::description(const KeyRow&) {
  return "list of {from, to[, unpack]}";
}

MaybeText StageList::yaml(const std::vector<StagedData>& value) {
  if (value.empty()) return std::nullopt;
  std::string all = "[";
  for (const StagedData& one : value) {
    all += fmt::format("{}{{\"from\": {}, \"to\": {}{}}}", all.size() == 1 ? "" : ", ",
                       quoted_yaml(one.from), quoted_yaml(one.to),
                       one.unpack ? ", \"unpack\": true" : "");
  }
  return all + "]";
}

using OutputList = ValueType<std::vector<OutputCopy>>;

void OutputList::set(const ValueReader& in, Access<std::vector<OutputCopy>> member) {
  in.put_items(member, "a list of {from, to}", [&](const YamlNode& item, const auto& before) {
    return in.item_reader().read_output_copy(item, before);
  });
}

ValueJson OutputList::schema(const KeyRow&) {
  using namespace schema_parts;
  const ValueJson duration = any_of({whole_number(10, 0), text(kDurationPattern), variable()});
  return list_of_maps({{"from", any_of({text(kNodePathPattern), variable()})},
                       {"to", scalar(kPrintablePattern)},
                       {"every", duration},
                       {"limit", duration}},
                      ValueJson::array({"from", "to"}));
}

std::string OutputList::description(const KeyRow&) {
  return "list of {from, to[, every][, limit]}";
}

MaybeText OutputList::yaml(const std::vector<OutputCopy>& value) {
  if (value.empty()) return std::nullopt;
  const auto duration = [](std::string_view name, const std::optional<std::int64_t>& seconds) {
    return seconds ? fmt::format(", \"{}\": {}s", name, *seconds) : std::string();
  };
  std::string all = "[";
  for (const OutputCopy& one : value) {
    all += fmt::format("{}{{\"from\": {}, \"to\": {}{}{}}}", all.size() == 1 ? "" : ", ",
                       quoted_yaml(one.from), quoted_yaml(one.to), duration("every", one.every_s),
                       duration("limit", one.limit_s));
  }
  return all + "]";
}

}  // namespace dlrun
