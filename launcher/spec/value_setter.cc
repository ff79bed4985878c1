// One overload per type of member. Each reads the node, checks it by the row's format and limits,
// and sets the member with its origin.
#include "launcher/spec/value_setter.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "common/hostlist.h"
#include "common/text.h"
#include "launcher/spec/download.h"
#include "launcher/spec/item_reader.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/slurm_units.h"
#include "launcher/spec/sweep_setter.h"

namespace dlrun {
namespace {

/// An option's name, and why a spec cannot give it.
using OwnOption = std::pair<std::string_view, std::string_view>;

/// Options that dlrun sets itself, and options that would prevent it from following the job.
constexpr std::array<OwnOption, 24> kOwnSbatchOptions{{
    {"array", "use sweep"},
    {"comment", "dlrun recognises its submissions by it"},
    {"export", "the job's environment is environment.vars"},
    {"export-file", "the job's environment is environment.vars"},
    {"get-user-env", "the job's environment is environment.vars"},
    {"help", "it submits nothing"},
    {"usage", "it submits nothing"},
    {"version", "it submits nothing"},
    {"ignore-pbs", "the script has none"},
    {"no-requeue", "dlrun sets it, or retry does not"},
    {"requeue", "use retry"},
    {"open-mode", "dlrun appends, so that a requeue keeps the log"},
    {"parsable", "dlrun reads sbatch's answer itself"},
    {"quiet", "dlrun reads sbatch's answer itself"},
    {"verbose", "dlrun reads sbatch's answer itself"},
    {"test-only", "use dlrun check"},
    {"wait", "use dlrun submit --watch"},
    {"wrap", "the script is dlrun's"},
    {"kill-on-bad-exit", "it is srun's"},
    {"het-group", "heterogeneous jobs are not supported"},
    {"dependency", "use after: {ok: [RUN]}"},
    {"hold", "nothing would start it; submit when it may run"},
    {"uid", "a job is its submitter's own"},
    {"gid", "a job is its submitter's own"},
}};

constexpr std::array<OwnOption, 14> kOwnSrunOptions{{
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

[[nodiscard]] std::string why_not_option(const KeyRow& row, std::string_view name) {
  const bool fine = !name.empty() && name[0] >= 'a' && name[0] <= 'z' &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
                    });
  if (!fine)
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
    for (const auto& [own, why] : kOwnSrunOptions) {
      if (name == own) return fmt::format("cannot be given: {}", why);
    }
    return "";
  }
  for (const auto& [own, why] : kOwnSbatchOptions) {
    if (name == own) return fmt::format("cannot be given: {}", why);
  }
  return "";
}

}  // namespace

/// Sets a member by the type of a row's field; called by std::visit.
struct ValueSetter {
  SpecBuilder& builder;
  SpecBuilder::Layer layer;
  const KeyRow& row;
  const YamlNode& node;

  void operator()(std::monostate) const {}

  void operator()(Access<std::optional<std::string>> member) const {
    if (row.format == Format::kFlag && node.text == "false") {
      builder.settle(key());
      return;
    }
    put(member, builder.text(layer, row, node, "text"), node);
  }

  void operator()(Access<std::optional<bool>> member) const {
    const auto text = builder.scalar(node, "true or false");
    if (!text) return refuse(text.error());
    if (*text == "true" || *text == "True" || *text == "TRUE")
      return put(member, Result<bool>(true), node);
    if (*text == "false" || *text == "False" || *text == "FALSE")
      return put(member, Result<bool>(false), node);
    refuse({Errc::kInvalid, fmt::format("expected true or false, not '{}'", printable(*text))});
  }

  void operator()(Access<std::optional<std::int64_t>> member) const {
    const auto text = builder.scalar(node, "a whole number");
    if (!text) return refuse(text.error());
    const auto number = parse_int(*text);
    if (!number)
      return refuse(
          {Errc::kInvalid, fmt::format("expected a whole number, not '{}'", printable(*text))});
    if (const auto fine = check_range(static_cast<double>(*number), *text); !fine)
      return refuse(fine.error());
    put(member, Result<std::int64_t>(*number), node);
  }

  void operator()(Access<std::optional<double>> member) const {
    const auto text = builder.scalar(node, "a number");
    if (!text) return refuse(text.error());
    const auto number = parse_double(*text);
    if (!number)
      return refuse({Errc::kInvalid, fmt::format("expected a number, not '{}'", printable(*text))});
    if (const auto fine = check_range(*number, *text); !fine) return refuse(fine.error());
    put(member, Result<double>(*number), node);
  }

  void operator()(Access<std::optional<NodeRange>> member) const {
    const auto text = builder.scalar(node, "a number of nodes");
    if (!text) return refuse(text.error());
    put(member, parse_nodes(*text), node);
  }

  void operator()(Access<std::optional<Gpus>> member) const {
    if (node.kind != YamlNode::Kind::kMap) {
      const auto text = builder.scalar(node, "a number of GPUs");
      if (!text) return refuse(text.error());
      return put(member, parse_gpus(*text), node);
    }
    Gpus gpus;
    bool has_count = false, is_fine = true;
    for (const auto& [name, value] : builder.entries(layer, node, key())) {
      const auto text = builder.scalar(*value, "a single value");
      if (name->text != "type" && name->text != "count") {
        builder.error(
            layer, *name, key(),
            fmt::format("unknown key '{}' in {}; it has type and count", name->text, row.path));
      } else if (!text) {
        refuse(text.error(), value);
      } else if (name->text == "type") {
        gpus.type = *text;
        if (const auto fine = check_gpu_type(*text); !fine)
          refuse(fine.error(), value), is_fine = false;
      } else if (const auto count = parse_gpus(*text); count && count->type.empty()) {
        gpus.count = count->count;
        has_count = true;
      } else {
        refuse(
            {Errc::kInvalid, fmt::format("count: '{}' is not a number of GPUs", printable(*text))},
            value);
        is_fine = false;
      }
    }
    if (is_fine && !has_count)
      return refuse({Errc::kInvalid, "count is missing: {type: a100, count: 4}"});
    if (is_fine) put(member, Result<Gpus>(gpus), node);
  }

  void operator()(Access<std::vector<std::string>> member) const {
    std::vector<std::string> words;
    bool is_fine = true;
    const bool is_command = row.path == "launch.command"_key;
    if (node.kind == YamlNode::Kind::kScalar && is_command) {
      return refuse({Errc::kInvalid,
                     "expected a list of words, such as [python, -u, train.py]; for a shell's line "
                     "write [bash, -c, '...']"});
    }
    const auto add = [&](const YamlNode& item) {
      auto text = builder.text(layer, row, item, "a list of words");
      if (text) {
        words.push_back(std::move(*text));
      } else {
        refuse(text.error(), &item);
        is_fine = false;
      }
    };
    if (node.kind == YamlNode::Kind::kSequence) {
      for (YamlId id : node.items) add(layer.document.at(id));
    } else {
      add(node);
    }
    if (is_command && is_fine && (words.empty() || words[0].empty()))
      return refuse({Errc::kInvalid, "names no program"});
    if (is_fine) put(member, Result<std::vector<std::string>>(std::move(words)), node);
  }

  void operator()(Access<NamedValues>) const { each_entry(); }
  void operator()(Access<std::vector<SlurmOption>>) const { each_entry(); }

  void operator()(Access<std::vector<Mount>> member) const {
    each_item(member, "a list of mounts", [this](const YamlNode& item, const std::vector<Mount>&) {
      return ItemReader{builder, layer, row}.mount(item);
    });
  }

  void operator()(Access<std::vector<SecretSource>> member) const {
    each_item(member, "a list of variables' names",
              [this](const YamlNode& item, const std::vector<SecretSource>& before) {
                return ItemReader{builder, layer, row}.secret(item, before);
              });
  }

  void operator()(Access<std::vector<Download>> member) const {
    each_item(member, "a list of {url, sha256}",
              [this](const YamlNode& item, const std::vector<Download>& before) {
                return ItemReader{builder, layer, row}.download(item, before);
              });
  }

  void operator()(Access<std::vector<SweptKey>> member) const {
    if (auto keys = SweepSetter{builder, layer, row}.parameters(node))
      put(member, Result<std::vector<SweptKey>>(std::move(*keys)), node);
  }
  void operator()(Access<std::vector<SweepPoint>> member) const {
    if (auto points = SweepSetter{builder, layer, row}.points(node))
      put(member, Result<std::vector<SweepPoint>>(std::move(*points)), node);
  }

  /// Sets one variable or one option of Slurm.
  void entry(const YamlNode& key_node, std::string_view name, const YamlNode& value) const {
    const std::string path = key() + "." + std::string(name);
    const auto refuse_entry = [&](const YamlNode& at, std::string_view why) {
      builder.error(layer, at, path, fmt::format("{}: '{}' {}", row.path, name, why));
    };
    if (const auto* variables = std::get_if<Access<NamedValues>>(&row.field)) {
      if (const auto why = why_not_variable(name); !why.empty()) return refuse_entry(key_node, why);
      if (value.kind == YamlNode::Kind::kNull) {
        if (layer.source.kind == Origin::Kind::kFile) {
          builder.warn(
              layer, key_node,
              fmt::format("{} has no value and is left out; write \"\" for an empty one", path));
        }
        builder.settle(path);
        return;
      }
      auto text = builder.text(layer, row, value, "text");
      if (!text)
        return builder.error(layer, value, path, fmt::format("{}: {}", path, text.error().message));
      if (!builder.settle(path)) return;
      builder.spec_.origins[path] = builder.origin(layer, value);
      (*variables)(builder.spec_).emplace_back(name, std::move(*text));
      return;
    }
    if (const std::string why = why_not_option(row, name); !why.empty())
      return refuse_entry(key_node, why);
    SlurmOption option{std::string(name), std::nullopt};
    if (value.kind == YamlNode::Kind::kSequence) {
      std::string joined;
      for (YamlId id : value.items) {
        const auto text = builder.text(layer, row, layer.document.at(id), "a word");
        if (!text)
          return builder.error(layer, layer.document.at(id), path,
                               fmt::format("{}: {}", path, text.error().message));
        joined += (joined.empty() ? "" : ",") + *text;
      }
      option.value = joined;
    } else if (value.kind == YamlNode::Kind::kScalar && !(value.is_plain && value.text == "true")) {
      if (value.is_plain && value.text == "false") {
        builder.settle(path);
        return;
      }
      auto text = builder.text(layer, row, value, "text");
      if (!text)
        return builder.error(layer, value, path, fmt::format("{}: {}", path, text.error().message));
      option.value = std::move(*text);
    } else if (value.kind == YamlNode::Kind::kMap) {
      return refuse_entry(value, "is a map; expected text, a list, or true for a bare option");
    }
    if (row.option.target == KeyTarget::kSrun &&
        (name == "nodelist" || name == "exclude")) {  // checks a step's nodes like the job's
      const auto fine = check_hostlist(option.value.value_or(""));
      if (!fine)
        return builder.error(layer, value, path, fmt::format("{}: {}", path, fine.error().message));
    }
    if (!builder.settle(path)) return;
    builder.spec_.origins[path] = builder.origin(layer, value);
    std::get<Access<std::vector<SlurmOption>>>(row.field)(builder.spec_)
        .push_back(std::move(option));
  }

 private:
  [[nodiscard]] std::string key() const { return std::string(row.path); }

  void refuse(const Error& why, const YamlNode* at = nullptr) const {
    builder.error(layer, at != nullptr ? *at : node, row.path,
                  fmt::format("{}: {}", row.path, why.message));
  }

  /// Reports an error without the line that it is about, which holds a password.
  void refuse_unshown(const Error& why, const YamlNode& at) const {
    Origin where = builder.origin(layer, at);
    if (where.kind == Origin::Kind::kSet) where.source = key() + "=...";
    builder.refused_.emplace(row.path);
    builder.report({Diagnostic::Severity::kError, where,
                    fmt::format("{}: {}", row.path, why.message), kLineNotShown});
  }

  template <typename Member, typename Value>
  void put(Access<Member> member, Result<Value> value, const YamlNode& at) const {
    if (!value) return refuse(value.error(), &at);
    if (!builder.settle(key())) return;
    member(builder.spec_) = std::move(*value);
    builder.spec_.origins[key()] = builder.origin(layer, at);
  }

  [[nodiscard]] Result<> check_range(double number, std::string_view text) const {
    if ((row.min == 0 && row.max == 0) || (number >= row.min && number <= row.max)) return {};
    return fail(Errc::kInvalid, "{} is not between {} and {}", text, row.min, row.max);
  }

  void each_entry() const {
    if (node.kind != YamlNode::Kind::kMap) {
      return refuse({Errc::kInvalid,
                     fmt::format("expected a map of names and values, not {}", kind_name(node))});
    }
    if (builder.settled_.contains(key())) return;  // a stronger layer said null
    for (const auto& [name, value] : builder.entries(layer, node, key()))
      entry(*name, name->text, *value);
  }

  /// Reads a list whose items have origins of their own: "container.mounts[0]".
  template <typename Item, typename Read>
  void each_item(Access<std::vector<Item>> member, std::string_view expected, Read read) const {
    if (node.kind != YamlNode::Kind::kSequence)
      return refuse(
          {Errc::kInvalid, fmt::format("expected {}, not {}", expected, kind_name(node))});
    std::vector<Item> found;
    bool is_fine = true;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode& node_of_item = layer.document.at(node.items[i]);
      Result<Item> item = read(node_of_item, found);
      if (item) {
        builder.spec_.origins.try_emplace(fmt::format("{}[{}]", row.path, i),
                                          builder.origin(layer, node_of_item));
        found.push_back(std::move(*item));
      } else {
        if (item.error().code == Errc::kRefused) {
          refuse_unshown(item.error(), node_of_item);
        } else {
          refuse(item.error(), &node_of_item);
        }
        is_fine = false;
      }
    }
    if (is_fine) put(member, Result<std::vector<Item>>(std::move(found)), node);
  }
};

std::vector<std::string_view> refused_option_names(const KeyRow& row) {
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
                                     ? std::span<const OwnOption>(kOwnSrunOptions)
                                     : std::span<const OwnOption>(kOwnSbatchOptions))
    add(name);
  return names;
}

void set_value(SpecBuilder& builder, const YamlDocument& document, const SpecSource& source,
               const KeyRow& row, const YamlNode& node) {
  std::visit(ValueSetter{builder, {document, source}, row, node}, row.field);
}

void set_free_entry(SpecBuilder& builder, const YamlDocument& document, const SpecSource& source,
                    const KeyRow& row, const YamlNode& node, std::string_view name) {
  if (!std::holds_alternative<Access<NamedValues>>(row.field) &&
      !std::holds_alternative<Access<std::vector<SlurmOption>>>(row.field)) {
    if (std::holds_alternative<Access<std::optional<Gpus>>>(row.field)) {
      builder.report({Diagnostic::Severity::kError,
                      {source.kind, source.name, 1, 1},
                      fmt::format("{} is set as a whole: {}=TYPE:COUNT", row.path, row.path),
                      source.text});
      return;
    }
    builder.report({Diagnostic::Severity::kError,
                    {source.kind, source.name, 1, 1},
                    fmt::format("{} is a single value and has nothing below it", row.path),
                    source.text});
    return;
  }
  YamlNode key;
  key.kind = YamlNode::Kind::kScalar;
  key.line = 1;
  key.column = 1 - source.column_shift;
  ValueSetter{builder, {document, source}, row, node}.entry(key, name, node);
}

}  // namespace dlrun
