#include "launcher/spec/schema_parts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "launcher/spec/sweep_reader.h"
#include "launcher/spec/value_setter.h"

namespace dlrun::schema_parts {

std::string variable_name_pattern() {
  return fmt::format("^(?!DLRUN_|dlrun_|SLURM_({}))(?!({})$)[A-Za-z_][A-Za-z0-9_]*$",
                     fmt::join(kPrefixesOfJobVariables, "|"), fmt::join(kVariablesOfBash, "|"));
}

ValueJson variable() {
  return {{"$ref", "#/definitions/variable"}};
}

ValueJson any_of(std::initializer_list<ValueJson> alternatives) {
  ValueJson list = ValueJson::array();
  for (const ValueJson& alternative : alternatives) list.push_back(alternative);
  return {{"anyOf", std::move(list)}};
}

ValueJson text(std::string_view pattern) {
  return {{"type", "string"}, {"pattern", pattern}};
}

ValueJson scalar(std::string_view pattern) {
  ValueJson schema{{"type", {"string", "number", "boolean"}}};
  if (!pattern.empty()) schema["pattern"] = pattern;
  return schema;
}

ValueJson whole_number(double min, double max) {
  ValueJson schema{{"type", "integer"}, {"minimum", static_cast<std::int64_t>(min)}};
  if (max > 0) schema["maximum"] = static_cast<std::int64_t>(max);
  return schema;
}

ValueJson schema_of_format(const KeyRow& row) {
  switch (row.format) {
    case Format::kLines:
      return scalar();
    case Format::kText:
    case Format::kPath:
    case Format::kMaybePath:
    case Format::kImage:
    case Format::kTextOrSwitch:
      return scalar(kPrintablePattern);
    case Format::kPathPattern:
      return text(R"(^[^\u0000-\u001f\u007f\\]+$)");
    case Format::kSlug:
      return any_of({{{"type", {"string", "number"}}, {"pattern", kSlugPattern}}, variable()});
    case Format::kChoice: {
      ValueJson words = ValueJson::array();
      for (std::string_view word : split(row.choices, ' ')) {
        words.push_back(word);
        if (word == "true" || word == "false") words.push_back(word == "true");
      }
      return any_of({{{"enum", words}}, variable()});
    }
    case Format::kContainerPath:
      return any_of({text(R"(^/[^\u0000-\u001f\u007f]*$)"), variable()});
    case Format::kTimeLimit:
      return any_of({whole_number(1, 0), text(kTimePattern), variable()});
    case Format::kDuration:
      return any_of({whole_number(0, 0), text(kDurationPattern), variable()});
    case Format::kMemory:
      return any_of({whole_number(0, 0), text(kMemoryPattern), variable()});
    case Format::kInterval:
      return any_of({text(kIntervalPattern), variable()});
    case Format::kNodeList:
      return any_of({scalar(kHostsPattern), variable()});
    case Format::kCount:
      return any_of({whole_number(1, 1e9), text(kWholeNumberPattern), variable()});
  }
  return scalar();
}

ValueJson swept_name() {
  ValueJson names = ValueJson::array();
  for (const KeyRow& row : spec_keys()) {
    if (why_not_sweepable(row.path).empty()) names.push_back(row.path);
  }
  ValueJson taken = ValueJson::array();
  for (std::string_view name : names_in_section("")) taken.push_back(name);
  return any_of(
      {{{"enum", std::move(names)}},
       {{"pattern", R"(^(environment\.vars|slurm|launch\.srun)\..+$)"}},
       {{"pattern", R"(^[A-Za-z_][A-Za-z0-9_]{0,63}$)"}, {"not", {{"enum", std::move(taken)}}}}});
}

}  // namespace dlrun::schema_parts
