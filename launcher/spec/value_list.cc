// Values that are lists: words, mounts, secrets, downloads, checks of nodes, and the keys and
// points of a sweep.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/program_parameters.h"
#include "launcher/spec/schema_parts.h"
#include "launcher/spec/sweep_reader.h"
#include "launcher/spec/value_type.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

using namespace schema_parts;

/// Joins the items of a list, each formatted by `write`: "[a, b]". Returns nullopt for an empty
/// list.
template <typename Item, typename Write>
[[nodiscard]] MaybeText flow_list(const std::vector<Item>& items, Write write) {
  if (items.empty()) return std::nullopt;
  std::string text = "[";
  for (const Item& item : items) text += (text.size() == 1 ? "" : ", ") + write(item);
  return text + "]";
}

[[nodiscard]] std::string flow_words(const std::vector<std::string>& words) {
  return flow_list(words, quoted_yaml).value_or("[]");
}

[[nodiscard]] ValueJson list_of(ValueJson item) {
  return {{"type", "array"}, {"items", std::move(item)}};
}

[[nodiscard]] bool is_launch_command(const KeyRow& row) {
  return row.path == "launch.command"_key;
}

}  // namespace

// Lists of texts

using TextList = ValueType<std::vector<std::string>>;

void TextList::set(const ValueReader& in, Access<std::vector<std::string>> member) {
  std::vector<std::string> words;
  bool is_fine = true;
  if (in.node.kind == YamlNode::Kind::kScalar && is_launch_command(in.row)) {
    return in.refuse({Errc::kInvalid,
                      "expected a list of words, such as [python, -u, train.py]; for a shell "
                      "line write [bash, -c, '...']"});
  }
  const auto add = [&](const YamlNode& item) {
    auto word = in.text(item, "a list of words");
    if (word) {
      words.push_back(std::move(*word));
    } else {
      in.refuse(word.error(), &item);
      is_fine = false;
    }
  };
  if (in.node.kind == YamlNode::Kind::kSequence) {
    for (YamlId id : in.node.items) add(in.layer.document.at(id));
  } else {
    add(in.node);
  }
  if (is_launch_command(in.row) && is_fine && (words.empty() || words[0].empty()))
    return in.refuse({Errc::kInvalid, "names no program"});
  if (!is_fine) return;
  // A later check reports a missing script at the position of its word.
  for (std::size_t i = 0; is_launch_command(in.row) && i < in.node.items.size(); ++i)
    in.record_origin_of_item(i, in.layer.document.at(in.node.items[i]));
  in.put(member, Result<std::vector<std::string>>(std::move(words)));
}

ValueJson TextList::schema(const KeyRow& row) {
  const ValueJson item = schema_of_format(row);
  ValueJson list = list_of(item);
  if (!is_launch_command(row)) return any_of({list, item});
  list["minItems"] = 1;
  return list;
}

std::string TextList::description(const KeyRow& row) {
  return is_launch_command(row)
             ? "list of words"
             : fmt::format("list, or one value: {}", format_in_words(row.format));
}

MaybeText TextList::option_text(const std::vector<std::string>& value) {
  return value.empty() ? std::nullopt : MaybeText(join(value, ","));
}

MaybeText TextList::yaml(const std::vector<std::string>& value) {
  return flow_list(value, quoted_yaml);
}

// Mounts

using Mounts = ValueType<std::vector<Mount>>;

void Mounts::set(const ValueReader& in, Access<std::vector<Mount>> member) {
  in.put_items(member, "a list of mounts", [&](const YamlNode& item, const auto&) {
    return in.item_reader().read_mount(item);
  });
}

ValueJson Mounts::schema(const KeyRow&) {
  const ValueJson flag = scalar("^[A-Za-z0-9=_-]+$");
  const ValueJson map{{"type", "object"},
                      {"properties",
                       {{"source", scalar(kPrintablePattern)},
                        {"target", scalar(kPrintablePattern)},
                        {"flags", any_of({list_of(flag), flag})}}},
                      {"required", {"source"}},
                      {"additionalProperties", false}};
  return list_of(
      any_of({scalar(R"(^[^:\u0000-\u001f\u007f]+(:[^:\u0000-\u001f\u007f]+){0,2}$)"), map}));
}

std::string Mounts::description(const KeyRow&) {
  return "list of SOURCE:TARGET[:FLAGS] or {source, target, flags}";
}

MaybeText Mounts::yaml(const std::vector<Mount>& value) {
  return flow_list(value, [](const Mount& mount) {
    return fmt::format("{{\"source\": {}, \"target\": {}, \"flags\": {}}}",
                       quoted_yaml(mount.source), quoted_yaml(mount.target),
                       flow_words(mount.flags));
  });
}

// Secrets

using Secrets = ValueType<std::vector<SecretSource>>;

void Secrets::set(const ValueReader& in, Access<std::vector<SecretSource>> member) {
  in.put_items(member, "a list of variables' names", [&](const YamlNode& item, const auto& before) {
    return in.item_reader().read_secret_source(item, before);
  });
}

ValueJson Secrets::schema(const KeyRow&) {
  const ValueJson name = text(variable_name_pattern());
  const ValueJson map{{"type", "object"},
                      {"properties", {{"name", name}, {"file", scalar(kPrintablePattern)}}},
                      {"required", {"name", "file"}},
                      {"additionalProperties", false}};
  return list_of(any_of({name, map}));
}

std::string Secrets::description(const KeyRow&) {
  return "list of NAME or {name, file}";
}

MaybeText Secrets::yaml(const std::vector<SecretSource>& value) {
  return flow_list(value, [](const SecretSource& secret) {
    return secret.file.empty() ? quoted_yaml(secret.name)
                               : fmt::format("{{\"name\": {}, \"file\": {}}}",
                                             quoted_yaml(secret.name), quoted_yaml(secret.file));
  });
}

// Downloads

using Downloads = ValueType<std::vector<Download>>;

void Downloads::set(const ValueReader& in, Access<std::vector<Download>> member) {
  in.put_items(member, "a list of {url, sha256}", [&](const YamlNode& item, const auto& before) {
    return in.item_reader().read_download(item, before);
  });
}

ValueJson Downloads::schema(const KeyRow&) {
  return list_of(
      {{"type", "object"},
       {"properties",
        {{"url", text(kUrlPattern)},
         {"sha256", any_of({text("^[0-9A-Fa-f]{64}$"), variable()})},
         {"file", text(kFileNamePattern)},
         {"bytes", any_of({whole_number(0, 0), text(kWholeNumberPattern), variable()})}}},
       {"required", {"url", "sha256"}},
       {"additionalProperties", false}});
}

std::string Downloads::description(const KeyRow&) {
  return "list of {url, sha256[, file][, bytes]}";
}

MaybeText Downloads::yaml(const std::vector<Download>& value) {
  return flow_list(value, [](const Download& one) {
    return fmt::format("{{\"url\": {}, \"sha256\": {}, \"file\": {}{}}}", quoted_yaml(one.url),
                       quoted_yaml(one.sha256), quoted_yaml(one.file),
                       one.bytes ? fmt::format(", \"bytes\": {}", *one.bytes) : "");
  });
}

// Checks before the programs start

using Checks = ValueType<std::vector<PreflightCheck>>;

void Checks::set(const ValueReader& in, Access<std::vector<PreflightCheck>> member) {
  std::vector<PreflightCheck> checks;
  bool is_fine = true;
  const auto add = [&](const YamlNode& item) {
    auto check = in.item_reader().read_preflight_check(item);
    if (check) {
      checks.push_back(std::move(*check));
    } else {
      in.refuse(check.error(), &item);
      is_fine = false;
    }
  };
  if (in.node.kind == YamlNode::Kind::kSequence) {
    for (YamlId id : in.node.items) add(in.layer.document.at(id));
  } else {
    add(in.node);
  }
  if (is_fine) in.put(member, Result<std::vector<PreflightCheck>>(std::move(checks)));
}

ValueJson Checks::schema(const KeyRow& row) {
  const ValueJson map{{"type", "object"},
                      {"properties", {{"run", scalar(kPrintablePattern)}}},
                      {"required", {"run"}},
                      {"additionalProperties", false}};
  const ValueJson item = any_of({schema_of_format(row), map});
  return any_of({list_of(item), item});
}

std::string Checks::description(const KeyRow& /*row*/) {
  return "list, or one value: a check, or {run: SHELL LINE}";
}

MaybeText Checks::yaml(const std::vector<PreflightCheck>& value) {
  return flow_list(value, [](const PreflightCheck& check) {
    return check.line.empty() ? quoted_yaml(check.name)
                              : fmt::format("{{\"run\": {}}}", quoted_yaml(check.line));
  });
}

// Keys and points of a sweep

using SweptKeys = ValueType<std::vector<SweptKey>>;

void SweptKeys::set(const ValueReader& in, Access<std::vector<SweptKey>> member) {
  if (auto keys = SweepReader{in.builder, in.layer, in.row}.parameters(in.node))
    in.put(member, Result<std::vector<SweptKey>>(std::move(*keys)));
}

ValueJson SweptKeys::schema(const KeyRow&) {
  const ValueJson number{{"type", {"number", "string"}}};
  const ValueJson range{
      {"type", "object"},
      {"properties", {{"min", number}, {"max", number}, {"log", {{"type", "boolean"}}}}},
      {"required", {"min", "max"}},
      {"additionalProperties", false}};
  return {{"type", "object"},
          {"minProperties", 1},
          {"propertyNames", swept_name()},
          {"additionalProperties", any_of({{{"type", "array"}, {"minItems", 1}}, range})}};
}

std::string SweptKeys::description(const KeyRow&) {
  return "map of names and lists of values; with sweep.random or sweep.ask also {min, max, log}";
}

namespace {

/// Returns `min` or `max` of a range as YAML. If the limits of a program parameter have no decimal
/// point, a sweep draws only whole numbers. For a range of other numbers, this function therefore
/// writes the limit 1 as "1.0".
[[nodiscard]] std::string range_limit(const SweptKey& key, double limit) {
  std::string text = fmt::format("{}", limit);
  if (!key.range->is_whole && is_program_parameter(key.key) && parse_int(text)) text += ".0";
  return text;
}

}  // namespace

MaybeText SweptKeys::yaml(const std::vector<SweptKey>& value) {
  if (value.empty()) return std::nullopt;
  std::string text = "{";
  for (const SweptKey& key : value) {
    text += fmt::format("{}{}: ", text.size() == 1 ? "" : ", ", quoted_yaml(key.key));
    text +=
        key.range
            ? fmt::format("{{min: {}, max: {}, log: {}}}", range_limit(key, key.range->min),
                          range_limit(key, key.range->max), key.range->is_log)
            : flow_list(key.values, [](const SweptValue& one) { return one.text; }).value_or("[]");
  }
  return text + "}";
}

using Points = ValueType<std::vector<SweepPoint>>;

void Points::set(const ValueReader& in, Access<std::vector<SweepPoint>> member) {
  if (auto points = SweepReader{in.builder, in.layer, in.row}.points(in.node))
    in.put(member, Result<std::vector<SweepPoint>>(std::move(*points)));
}

ValueJson Points::schema(const KeyRow&) {
  return {{"type", "array"},
          {"minItems", 1},
          {"items", {{"type", "object"}, {"minProperties", 1}, {"propertyNames", swept_name()}}}};
}

std::string Points::description(const KeyRow&) {
  return "list of maps of names and values";
}

MaybeText Points::yaml(const std::vector<SweepPoint>& value) {
  return flow_list(value, [](const SweepPoint& point) {
    std::string text = "{";
    for (const SweptValue& one : point)
      text += fmt::format("{}{}: {}", text.size() == 1 ? "" : ", ", quoted_yaml(one.key), one.text);
    return text + "}";
  });
}

}  // namespace dlrun
