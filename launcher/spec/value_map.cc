// Values that are maps whose names the user chooses: variables, and options of sbatch and srun.
#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/hostlist.h"
#include "launcher/spec/schema_parts.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/value_type.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

using namespace schema_parts;

/// An option's name, and the reason why a spec cannot set it.
using RefusedOption = std::pair<std::string_view, std::string_view>;

constexpr std::array<RefusedOption, 24> kRefusedSbatchOptions{{
    {"array", "use sweep"},
    {"comment", "dlrun recognises its submissions by the comment"},
    {"export", "the job's environment is environment.vars"},
    {"export-file", "the job's environment is environment.vars"},
    {"get-user-env", "the job's environment is environment.vars"},
    {"help", "it submits nothing"},
    {"usage", "it submits nothing"},
    {"version", "it submits nothing"},
    {"ignore-pbs", "the script has no #PBS lines"},
    {"no-requeue", "dlrun sets it, unless retry is given"},
    {"requeue", "use retry"},
    {"open-mode", "dlrun appends, so that a requeue keeps the log"},
    {"parsable", "dlrun reads sbatch's answer itself"},
    {"quiet", "dlrun reads sbatch's answer itself"},
    {"verbose", "dlrun reads sbatch's answer itself"},
    {"test-only", "use dlrun check"},
    {"wait", "use dlrun submit --watch"},
    {"wrap", "dlrun writes the script"},
    {"kill-on-bad-exit", "it is an option of srun"},
    {"het-group", "use components"},
    {"dependency", "use after: {ok: [RUN]}"},
    {"hold", "no command of dlrun releases a held job"},
    {"uid", "a job runs as the user who submits it"},
    {"gid", "a job runs as the user who submits it"},
}};

constexpr std::array<RefusedOption, 14> kRefusedSrunOptions{{
    {"export", "dlrun passes the whole environment; use environment.vars"},
    {"kill-on-bad-exit", "dlrun sets it"},
    {"wait", "it kills ranks that are still saving"},
    {"cpus-per-task", "use resources.cpus_per_task"},
    {"pty", "use dlrun interactive"},
    {"multi-prog", "every rank runs the same program"},
    {"bcast", "the program is the agent, which the nodes have already"},
    {"jobid", "the step belongs to its own job"},
    {"job-name", "use name"},
    {"no-kill", "use retry.on: [node_failure] with a range of resources.nodes"},
    {"help", "it starts nothing"},
    {"usage", "it starts nothing"},
    {"version", "it starts nothing"},
    {"test-only", "use dlrun check"},
}};

/// Returns the reason why the map of options `row` cannot have this option; empty if it can.
[[nodiscard]] std::string why_not_option(const KeyRow& row, std::string_view name) {
  const bool is_long_name = !name.empty() && name[0] >= 'a' && name[0] <= 'z' &&
                            std::all_of(name.begin(), name.end(), [](char c) {
                              return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
                            });
  if (!is_long_name)
    return "is not the long name of an option: small letters, digits and '-', without the leading "
           "dashes";
  const bool is_srun = row.option.target == KeyTarget::kSrun;
  if (is_srun && (name == "container-mounts" || name == "container-env"))
    return "";  // merged with dlrun's own value
  const std::string option = "--" + std::string(name);
  for (const KeyRow& other : spec_keys()) {
    if (other.option.name != option) continue;
    const KeyTarget target = other.option.target;
    if (target == row.option.target || (is_srun && target == KeyTarget::kContainer))
      return fmt::format("has a key of its own: {}", other.path);
  }
  if (is_srun) {
    for (const auto& [refused, why] : kRefusedSrunOptions) {
      if (name == refused) return fmt::format("cannot be given: {}", why);
    }
    return "";
  }
  for (const auto& [refused, why] : kRefusedSbatchOptions) {
    if (name == refused) return fmt::format("cannot be given: {}", why);
  }
  return "";
}

/// Returns the names that a map of options refuses: the options with a key of their own, and the
/// refused options above.
[[nodiscard]] std::vector<std::string_view> refused_option_names(const KeyRow& row) {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name) {
    if (!why_not_option(row, name).empty() &&
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  for (const KeyRow& other : spec_keys()) {
    if (other.option.name.starts_with("--")) add(other.option.name.substr(2));
  }
  for (const auto& [name, why] : row.option.target == KeyTarget::kSrun
                                     ? std::span<const RefusedOption>(kRefusedSrunOptions)
                                     : std::span<const RefusedOption>(kRefusedSbatchOptions))
    add(name);
  return names;
}

void refuse_entry(const ValueReader& in, std::string_view name, const YamlNode& at,
                  std::string_view why) {
  // If somebody writes HF_TOKEN=VALUE in the place of a name, the message must not show the value.
  const std::string shown = shown_argument(name);
  in.refuse_with_message(at, in.entry_key(name),
                         fmt::format("{}: '{}' {}", in.row.path, shown, why));
}

/// Reads an option from the node of its value. The option has no value if the node is null or true.
/// Returns nullopt for false, which removes the option. If the value is invalid, reports a problem
/// and returns nullopt.
[[nodiscard]] std::optional<SlurmOption> option_of(const ValueReader& in, std::string_view name,
                                                   const YamlNode& value) {
  const std::string path = in.entry_key(name);
  SlurmOption option{std::string(name), std::nullopt};
  if (value.kind == YamlNode::Kind::kMap) {
    refuse_entry(in, name, value, "is a map; expected text, a list, or true for a bare option");
    return std::nullopt;
  }
  if (value.kind == YamlNode::Kind::kSequence) {
    std::string joined;
    for (YamlId id : value.items) {
      const YamlNode& item = in.layer.document.at(id);
      const auto word = in.text(item, "a word");
      if (!word) {
        in.refuse_value(item, path, word.error());
        return std::nullopt;
      }
      joined += (joined.empty() ? "" : ",") + *word;
    }
    option.value = joined;
    return option;
  }
  const bool is_plain = value.kind == YamlNode::Kind::kScalar && value.is_plain;
  if (is_plain && value.text == "false") {
    in.mark_decided(path);
    return std::nullopt;
  }
  if (value.kind == YamlNode::Kind::kNull || (is_plain && value.text == "true")) return option;
  auto word = in.text(value, "text");
  if (!word) {
    in.refuse_value(value, path, word.error());
    return std::nullopt;
  }
  option.value = std::move(*word);
  return option;
}

}  // namespace

// Variables

using Variables = ValueType<NamedValues>;

void Variables::set(const ValueReader& in, Access<NamedValues> member) {
  in.each_entry([&](const YamlNode& name_node, std::string_view name, const YamlNode& value) {
    set_entry(in, member, name_node, name, value);
  });
}

void Variables::set_entry(const ValueReader& in, Access<NamedValues> member,
                          const YamlNode& name_node, std::string_view name, const YamlNode& value) {
  const std::string path = in.entry_key(name);
  if (const auto why = why_not_settable(name); !why.empty())
    return refuse_entry(in, name, name_node, why);
  if (value.kind == YamlNode::Kind::kNull) {
    if (in.layer.source.kind == Origin::Kind::kFile) {
      in.warn(name_node,
              fmt::format("{} has no value and is left out; write \"\" for an empty value", path));
    }
    in.mark_decided(path);
    return;
  }
  auto word = in.text(value, "text");
  if (!word) return in.refuse_value(value, path, word.error());
  in.put_entry(member, path, value, std::pair(std::string(name), std::move(*word)));
}

ValueJson Variables::schema(const KeyRow&) {
  return {{"type", "object"},
          {"propertyNames", {{"pattern", variable_name_pattern()}}},
          {"additionalProperties", {{"type", {"string", "number", "boolean", "null"}}}}};
}

std::string Variables::description(const KeyRow&) {
  return "map of names and values";
}

NamedValues Variables::entries(const NamedValues& value) {
  NamedValues entries;
  for (const auto& [name, text] : value) entries.emplace_back(name, quoted_yaml(text));
  return entries;
}

// Options of sbatch and srun

using Options = ValueType<std::vector<SlurmOption>>;

void Options::set(const ValueReader& in, Access<std::vector<SlurmOption>> member) {
  in.each_entry([&](const YamlNode& name_node, std::string_view name, const YamlNode& value) {
    set_entry(in, member, name_node, name, value);
  });
}

void Options::set_entry(const ValueReader& in, Access<std::vector<SlurmOption>> member,
                        const YamlNode& name_node, std::string_view name, const YamlNode& value) {
  if (const std::string why = why_not_option(in.row, name); !why.empty())
    return refuse_entry(in, name, name_node, why);
  auto option = option_of(in, name, value);
  if (!option) return;
  const std::string path = in.entry_key(name);
  // The nodes of a step are checked like those of the job.
  if (in.row.option.target == KeyTarget::kSrun && (name == "nodelist" || name == "exclude")) {
    if (const auto fine = check_hostlist(option->value.value_or("")); !fine)
      return in.refuse_value(value, path, fine.error());
  }
  in.put_entry(member, path, value, std::move(*option));
}

ValueJson Options::schema(const KeyRow& row) {
  ValueJson refused = ValueJson::array();
  for (std::string_view name : refused_option_names(row)) refused.push_back(name);
  const ValueJson word{{"type", {"string", "number", "boolean", "null"}}};
  return {{"type", "object"},
          {"propertyNames", {{"pattern", kOptionNamePattern}, {"not", {{"enum", refused}}}}},
          {"additionalProperties",
           any_of({word, {{"type", "array"}, {"items", scalar(kPrintablePattern)}}})}};
}

std::string Options::description(const KeyRow&) {
  return "map of long option names: text, a list, or true for an option without a value";
}

NamedValues Options::entries(const std::vector<SlurmOption>& value) {
  NamedValues entries;
  for (const SlurmOption& option : value)
    entries.emplace_back(option.name, option.value ? quoted_yaml(*option.value) : "true");
  return entries;
}

}  // namespace dlrun
