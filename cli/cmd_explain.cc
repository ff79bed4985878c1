// `dlrun explain`: describes a key, or lists a spec's values and the origin of each.

#include <algorithm>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/prepare.h"
#include "cli/report.h"
#include "cli/terminal/json_or_null.h"
#include "cli/terminal/print.h"
#include "common/bounded_json.h"
#include "common/text.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_help.h"
#include "launcher/spec/key_reference.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

/// Columns of a value in the table; --json prints it whole.
constexpr std::size_t kShownValue = 72;

struct Options {
  SpecOptions spec;
  bool json = false, markdown = false;
};

[[nodiscard]] Json key_json(const KeyRow& row) {
  const KeyHelp help = describe_key(row);
  Json json;
  json["key"] = row.path;
  json["supported"] = row.is_supported();
  json["help"] = row.help;
  json["type"] = help.type;
  json["default"] = text_or_null(row.fallback);
  json["range"] = text_or_null(help.range);
  json["makes"] = text_or_null(help.makes);
  json["value"] = text_or_null(row.example);
  json["example"] = text_or_null(help.example);
  return json;
}

[[nodiscard]] Text key_text(const KeyRow& row) {
  const KeyHelp help = describe_key(row);
  Text all = text("{}\n  {}\n\n", styled(Style::kBold, row.path), row.help);
  const auto line = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) all.add("  {:<9} {}\n", name, value);
  };
  line("type", help.type);
  line("range", help.range);
  line("default", row.fallback);
  line("makes", help.makes);
  line("example", help.example);
  return all;
}

int explain_keys(const Cli& cli, const std::vector<const KeyRow*>& rows, bool json) {
  if (json) {
    Json list = Json::array();
    for (const KeyRow* row : rows) list.push_back(key_json(*row));
    print_json(list);
  } else if (rows.size() == 1) {
    print(cli, key_text(*rows[0]));
  } else {
    std::vector<std::vector<std::string>> lines{{"KEY", "MEANING"}};
    for (const KeyRow* row : rows)
      lines.push_back(
          {std::string(row->path),
           fmt::format("{}{}", row->is_supported() ? "" : "(not supported yet) ", row->help)});
    print(cli, table(lines));
  }
  return kExitOk;
}

struct Explained {
  std::string key, text;  ///< text: one line of YAML
  Origin origin;
  std::string where;  ///< the origin as text
};

/// Returns text as YAML: a number or a truth value stays as it is, anything else is quoted.
[[nodiscard]] std::string yaml_of(std::string_view text) {
  const Json value = parse_json<Json>(text);
  if (value.is_number() || value.is_boolean()) return std::string(text);
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns true if the default of an unset key affects this job.
[[nodiscard]] bool is_of_job(const Prepared& prepared, std::string_view key) {
  if (key.starts_with("train.") || key.starts_with("checkpoint."))
    return prepared.loaded.preset.is_trainer;
  if (key.starts_with("container."))
    return container_runtime(prepared.loaded.spec, prepared.loaded.site) != "none" &&
           key != "container.runtime";
  if (key.starts_with("retry.")) return wants_retry(prepared.loaded.spec);
  return key == "launch.agent" || key == "code.snapshot" || key == "submit.via";
}

/// Adds the values that dlrun chose for keys that the spec does not set: derived from another key,
/// or the default.
void add_decisions(const Prepared& prepared, std::vector<Explained>& rows) {
  const auto add = [&](std::string_view key, std::string_view value, std::string_view by) {
    if (std::any_of(rows.begin(), rows.end(), [&](const Explained& row) { return row.key == key; }))
      return;
    const bool is_default = by.empty() || by == key;
    const Origin origin{Origin::Kind::kDefault, is_default ? "" : std::string(by), 0, 0};
    rows.push_back({std::string(key), yaml_of(value), origin,
                    is_default ? "default" : fmt::format("from {}", by)});
  };
  const LaunchPlan& plan = prepared.plan;
  for (const PlannedOption& directive : plan.directives) {
    for (const KeyRow& row : spec_keys()) {
      if (row.path.starts_with("resources.") && row.option == directive.option)
        add(row.path, directive.value.value_or("true"), directive.key);
    }
  }
  add("launch.preset", prepared.loaded.preset.name, "");
  for (const PlannedWords& words : plan.program) {
    if (words.key.starts_with("train.") && words.words.size() == 2)
      add(words.key, words.words[1], "");
  }
  for (const PlannedOption& option : plan.rank_options) {
    if (option.option == "--nproc-per-node")
      add("launch.nproc_per_node", option.value.value_or(""), option.key);
  }
  for (const KeyRow& row : spec_keys()) {
    if (row.path == "resources.cpus_per_task" && plan.shares_cpus) add(row.path, row.fallback, "");
    if (!row.fallback.empty() && row.is_supported() && is_of_job(prepared, row.path))
      add(row.path, row.fallback, "");
  }
}

/// Lists the spec's values, then those of the site and the preset, then those that dlrun chose.
[[nodiscard]] std::vector<Explained> explained(const Prepared& prepared) {
  std::vector<Explained> rows;
  for (const EffectiveValue& value : effective_values(prepared.loaded.spec))
    rows.push_back({value.key, value.text, value.origin, describe(value.origin)});
  const auto is_told = [&](const std::string& key) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const Explained& row) { return row.key == key; });
  };
  const auto add = [&](std::string key, std::string_view value, const std::string& by) {
    if (is_told(key)) return;
    const bool is_site = by.starts_with("site ");
    const Origin origin{is_site ? Origin::Kind::kSite : Origin::Kind::kPreset,
                        is_site ? prepared.loaded.site.source : prepared.loaded.preset.source, 0,
                        0};
    rows.push_back({std::move(key),
                    Json(value).dump(-1, ' ', false, Json::error_handler_t::replace), origin,
                    fmt::format("{} ({})", by, origin.source)});
  };
  const LaunchPlan& plan = prepared.plan;
  for (const PlannedVariable& variable : plan.prologue.vars)
    add("environment.vars." + variable.name, variable.value, variable.key);
  for (const PlannedVariable& variable : plan.rank_env)
    add("environment.vars." + variable.name, variable.value, variable.key);
  for (const PlannedOption& option : plan.step) {
    if (option.option == "--mpi" && option.value) add("launch.mpi", *option.value, option.key);
  }
  if (const auto runtime = container_runtime(prepared.loaded.spec, prepared.loaded.site);
      runtime != "none")
    add("container.runtime", runtime, "site " + prepared.loaded.site.name);
  add_decisions(prepared, rows);
  return rows;
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
    case Origin::Kind::kSet:
      return "set";
  }
  return "";
}

Result<int> explain_spec(Cli& cli, const Options& options) {
  const auto prepared = prepare(cli, options.spec, Target::kSlurm);
  if (!prepared) return tl::unexpected(prepared.error());
  const auto rows = explained(*prepared);
  if (options.json) {
    Json list = Json::array();
    for (const Explained& row : rows) {
      Json origin;
      origin["kind"] = kind_word(row.origin.kind);
      origin["source"] = text_or_null(row.origin.source);
      origin["line"] = row.origin.line > 0 ? Json(row.origin.line) : Json(nullptr);
      origin["column"] = row.origin.line > 0 ? Json(row.origin.column) : Json(nullptr);
      Json value = parse_json<Json>(row.text);
      list.push_back({{"key", row.key},
                      {"value", value.is_discarded() ? Json(row.text) : value},
                      {"origin", origin}});
    }
    print_json(list);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> lines{{"KEY", "VALUE", "ORIGIN"}};
  for (const Explained& row : rows)
    lines.push_back({row.key, shortened(row.text, kShownValue), row.where});
  print(cli, table(lines));
  return kExitOk;
}

Result<int> explain(Cli& cli, const Options& options) {
  const std::string& what = options.spec.file;
  if (options.markdown) {
    if (options.json || !what.empty())
      return fail(Errc::kUsage, "--markdown prints the reference of all keys; give it alone");
    print_document(key_reference_markdown());
    return kExitOk;
  }
  if (what.empty()) return explain_keys(cli, keys_below(""), options.json);
  if (const auto rows = keys_below(what); !rows.empty())
    return explain_keys(cli, rows, options.json);
  std::error_code error;
  const bool is_file = what.find('/') != std::string::npos || what.ends_with(".yaml") ||
                       what.ends_with(".yml") ||
                       std::filesystem::exists(cli.current_dir / what, error);
  if (!is_file) return fail(Errc::kUsage, "{}", no_such_key(what));
  return explain_spec(cli, options);
}

}  // namespace

void add_explain(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(root, "explain",
                     "Describe a key, or list every value of a spec and its source");
  command.option("KEY|SPEC", options->spec.file,
                 "A key such as resources.nodes, a section, or a spec file (all keys)");
  add_set_option(command, options->spec);
  command.flag("--json", options->json, "Print a JSON array");
  command.flag("--markdown", options->markdown, "Print the reference of all keys, docs/keys.md");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return explain(cli, *options); }; });
}

}  // namespace dlrun
