#include "launcher/help/explain.h"

#include <algorithm>
#include <string_view>

#include "common/bounded_json.h"
#include "common/json_or_null.h"
#include "common/secret_names.h"
#include "common/text.h"
#include "launcher/spec/config_reader.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/secret_words.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json key_json(const KeyRow& row) {
  const KeyDescription description = describe_key(row);
  Json json;
  json["key"] = row.path;
  json["supported"] = row.is_supported();
  json["help"] = row.help;
  json["type"] = description.type;
  json["default"] = text_or_null(row.fallback);
  json["range"] = text_or_null(description.range);
  json["makes"] = text_or_null(description.makes);
  json["value"] = text_or_null(row.example);            // the example's value without its key
  json["example"] = text_or_null(description.example);  // the same value with its key, as YAML
  return json;
}

/// Returns text as YAML: a number or a boolean stays as it is, any other text is quoted.
[[nodiscard]] std::string yaml_of(std::string_view text) {
  const Json value = parse_json<Json>(text);
  if (value.is_number() || value.is_boolean()) return std::string(text);
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns true if the default of an unset key affects this job.
[[nodiscard]] bool default_applies(const LoadedSpec& loaded, std::string_view key) {
  if (key.starts_with("train.") || key.starts_with("checkpoint.")) return loaded.preset.is_trainer;
  if (key.starts_with("container."))
    return container_runtime(loaded.spec, loaded.site) != "none" && key != "container.runtime"_key;
  if (key.starts_with("retry.")) return wants_retry(loaded.spec);
  if (key.starts_with("notify."))
    return loaded.spec.notify.has_webhook() || !loaded.spec.notify.command.empty();
  if (key.starts_with("profile.")) return loaded.spec.profile.tool.has_value();
  if (key == "environment.pixi.environment"_key)
    return loaded.spec.environment.pixi_project.has_value();
  return key == "launch.agent"_key || key == "code.snapshot"_key || key == "submit.via"_key;
}

/// Writes *** instead of the value of each variable that is named like a secret. Masks tokens and
/// passwords in all other values, and in the arguments of --set, which the origins show.
void mask_secret_values(std::vector<ExplainedValue>& rows) {
  for (ExplainedValue& row : rows) {
    const auto vars = row.key.find("vars.");
    if (vars != std::string::npos && is_secret_name(std::string_view(row.key).substr(vars + 5))) {
      row.text = "***";
    } else {
      row.text = mask_evident_secrets(row.text).text;
    }
    if (row.origin.kind == Origin::Kind::kSetOption)
      row.origin.source = shown_argument(row.origin.source);
  }
}

/// Adds the values that dlrun chose for keys that the spec does not set: values derived from
/// another key, and defaults.
void add_chosen_values(const LoadedSpec& loaded, const LaunchPlan& plan,
                       std::vector<ExplainedValue>& rows) {
  const auto add = [&](std::string_view key, std::string_view value, std::string_view decided_by) {
    if (std::any_of(rows.begin(), rows.end(),
                    [&](const ExplainedValue& row) { return row.key == key; }))
      return;
    const bool is_default = decided_by.empty() || decided_by == key;
    const Origin origin{Origin::Kind::kDefault, is_default ? "" : std::string(decided_by), 0, 0};
    rows.push_back({std::string(key), yaml_of(value), origin,
                    is_default ? "default" : fmt::format("from {}", decided_by)});
  };
  // If a key decides an option, the option's comment is the name of this key.
  for (const PlannedOption& directive : plan.directives) {
    if (const KeyRow* row = find_sbatch_key(directive.option))
      add(row->path, directive.value.value_or("true"), directive.comment);
  }
  if (plan.components.empty()) add("launch.preset"_key, loaded.preset.name, "");
  for (const PlannedArguments& group : plan.program) {
    if (group.comment.starts_with("train.") && group.arguments.size() == 2)
      add(group.comment, group.arguments[1], "");
  }
  for (const PlannedOption& option : plan.rank_options) {
    if (option.option == "--nproc-per-node")
      add("launch.nproc_per_node"_key, option.value.value_or(""), option.comment);
  }
  for (const KeyRow& row : spec_keys()) {
    if (row.path == "resources.cpus_per_task"_key && plan.shares_cpus)
      add(row.path, row.fallback, "");
    if (!row.fallback.empty() && row.is_supported() && default_applies(loaded, row.path))
      add(row.path, row.fallback, "");
  }
}

[[nodiscard]] std::string_view kind_word(Origin::Kind kind) {
  switch (kind) {
    case Origin::Kind::kDefault:
      return "default";
    case Origin::Kind::kFile:
      return "file";
    case Origin::Kind::kSite:
      return "site";
    case Origin::Kind::kPreset:
      return "preset";
    case Origin::Kind::kEnv:
      return "env";
    case Origin::Kind::kSetOption:
      return "set";
  }
  return "";
}

}  // namespace

LabelledLines key_lines(const KeyRow& row) {
  const KeyDescription description = describe_key(row);
  LabelledLines lines;
  add_line(lines, "type", description.type);
  add_line(lines, "range", description.range);
  add_line(lines, "default", std::string(row.fallback));
  add_line(lines, "makes", description.makes);
  add_line(lines, "example", description.example);
  return lines;
}

TableRows keys_table(const std::vector<const KeyRow*>& rows) {
  TableRows table{{"KEY", "MEANING"}};
  for (const KeyRow* row : rows)
    table.push_back(
        {std::string(row->path),
         fmt::format("{}{}", row->is_supported() ? "" : "(not supported yet) ", row->help)});
  return table;
}

TableRows presets_table(const std::vector<std::filesystem::path>& dirs) {
  TableRows table{{"PRESET", "MEANING"}};
  for (const Preset& preset : read_presets(dirs)) table.push_back({preset.name, preset.help});
  return table;
}

std::vector<ExplainedValue> explain_values(const LoadedSpec& loaded, const LaunchPlan& plan) {
  std::vector<ExplainedValue> rows;
  const auto add_values = [&](const std::vector<EffectiveValue>& values) {
    for (const EffectiveValue& value : values)
      rows.push_back({value.key, value.text, value.origin, describe(value.origin)});
  };
  std::vector<EffectiveValue> of_spec = effective_values(loaded.spec);
  std::erase_if(of_spec, [](const EffectiveValue& one) { return one.key == "components"_key; });
  add_values(of_spec);
  for (const ComponentSpec& component : loaded.spec.components)
    add_values(own_values_of_component(component));
  const auto has_row = [&](const std::string& key) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const ExplainedValue& row) { return row.key == key; });
  };
  const auto add = [&](std::string key, std::string_view value, const std::string& decided_by,
                       Origin::Kind origin_kind) {
    if (has_row(key)) return;
    const Origin origin{origin_kind,
                        origin_kind == Origin::Kind::kSite     ? loaded.site.source
                        : origin_kind == Origin::Kind::kPreset ? loaded.preset.source
                                                               : std::string(),
                        0, 0};
    rows.push_back(
        {std::move(key), Json(value).dump(-1, ' ', false, Json::error_handler_t::replace), origin,
         origin.source.empty() ? decided_by : fmt::format("{} ({})", decided_by, origin.source)});
  };
  for (const PlannedVariable& variable : plan.prologue.vars)
    add("environment.vars." + variable.name, variable.value, variable.comment,
        variable.origin_kind);
  for (const PlannedVariable& variable : plan.rank_templates)
    add("environment.vars." + variable.name, variable.value, variable.comment,
        variable.origin_kind);
  for (const PlannedOption& option : plan.step) {
    if (option.option == "--mpi" && option.value)
      add("launch.mpi"_key, *option.value, option.comment, Origin::Kind::kPreset);
  }
  if (const auto runtime = container_runtime(loaded.spec, loaded.site); runtime != "none")
    add("container.runtime"_key, runtime, "site " + loaded.site.name, Origin::Kind::kSite);
  add_chosen_values(loaded, plan, rows);
  mask_secret_values(rows);
  return rows;
}

Json keys_json(const std::vector<const KeyRow*>& rows) {
  Json list = Json::array();
  for (const KeyRow* row : rows) list.push_back(key_json(*row));
  return list;
}

Json values_json(const std::vector<ExplainedValue>& values) {
  Json list = Json::array();
  for (const ExplainedValue& one : values) {
    Json origin;
    origin["kind"] = kind_word(one.origin.kind);
    origin["source"] = text_or_null(one.origin.source);
    origin["line"] = one.origin.line > 0 ? Json(one.origin.line) : Json(nullptr);
    origin["column"] = one.origin.line > 0 ? Json(one.origin.column) : Json(nullptr);
    Json value = parse_json<Json>(one.text);
    list.push_back({{"key", one.key},
                    {"value", value.is_discarded() ? Json(one.text) : value},
                    {"origin", origin}});
  }
  return list;
}

}  // namespace dlrun
