#include "launcher/spec/key_help.h"

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

[[nodiscard]] std::string_view text_type(Format format) {
  switch (format) {
    case Format::kText:
      return "text";
    case Format::kLines:
      return "text, also of several lines";
    case Format::kSlug:
      return "name of letters, digits, '.', '_', '-'";
    case Format::kChoice:
      return "word";
    case Format::kPath:
      return "path, relative to the spec's folder";
    case Format::kMaybePath:
      return "name, or a path if it contains a '/'";
    case Format::kImage:
      return "registry name, or a path if it starts with '/', './', '../' or '~/'";
    case Format::kPattern:
      return "path with Slurm's % patterns, relative to the spec's folder";
    case Format::kInside:
      return "absolute path inside the container";
    case Format::kTime:
      return "time limit";
    case Format::kDuration:
      return "duration: seconds, or 90s, 10m, 1h30m, 2d";
    case Format::kMemory:
      return "memory size: 500M, 64G, 1T";
    case Format::kInterval:
      return "interval: '500 steps' or '1 epoch'";
    case Format::kCount:
      return "whole number";
    case Format::kHosts:
      return "node list: n1,n[3-7]";
    case Format::kFlag:
      return "true, false or text";
  }
  return "text";
}

struct TypeOf {
  const KeyRow& row;
  std::string operator()(std::monostate) const { return "not supported yet"; }
  std::string operator()(Access<std::optional<std::string>>) const {
    return std::string(text_type(row.format));
  }
  std::string operator()(Access<std::optional<std::int64_t>>) const { return "whole number"; }
  std::string operator()(Access<std::optional<double>>) const { return "number"; }
  std::string operator()(Access<std::optional<bool>>) const { return "true or false"; }
  std::string operator()(Access<std::optional<NodeRange>>) const {
    return "number of nodes, or a range \"2-4\"";
  }
  std::string operator()(Access<std::optional<Gpus>>) const {
    return "number of GPUs: 4, a100:4 or {type: a100, count: 4}";
  }
  std::string operator()(Access<std::vector<std::string>>) const {
    return row.path == "launch.command"_key
               ? "list of words"
               : fmt::format("list, or one value: {}", text_type(row.format));
  }
  std::string operator()(Access<NamedValues>) const { return "map of names and values"; }
  std::string operator()(Access<std::vector<SlurmOption>>) const {
    return "map of long option names: text, a list, or true for an option without a value";
  }
  std::string operator()(Access<std::vector<SecretSource>>) const {
    return "list of NAME or {name, file}";
  }
  std::string operator()(Access<std::vector<SweptKey>>) const {
    return "map of keys and lists of values; with sweep.random also {min, max, log}";
  }
  std::string operator()(Access<std::vector<SweepPoint>>) const {
    return "list of maps of keys and values";
  }
  std::string operator()(Access<std::vector<Download>>) const {
    return "list of {url, sha256[, file][, bytes]}";
  }
  std::string operator()(Access<std::vector<Mount>>) const {
    return "list of SOURCE:TARGET[:FLAGS] or {source, target, flags}";
  }
};

[[nodiscard]] std::string range_of(const KeyRow& row) {
  if (row.format == Format::kChoice) return fmt::format("one of: {}", row.choices);
  if (row.min != 0 || row.max != 0) return fmt::format("{} to {}", row.min, row.max);
  if (row.format == Format::kSlug) return "at most 64 characters";
  if (row.format == Format::kCount) return "from 1";
  if (std::holds_alternative<Access<std::optional<NodeRange>>>(row.field)) return "1 to 1000000";
  if (std::holds_alternative<Access<std::optional<Gpus>>>(row.field)) return "0 to 1000000";
  return "";
}

[[nodiscard]] std::string made_by(const KeyRow& row) {
  if (row.path == "slurm") return "#SBATCH --NAME=...";
  if (row.path == "launch.srun"_key) return "srun --NAME=...";
  if (row.path == "checkpoint.signal_before"_key) return "#SBATCH --signal=B:USR1@...";
  if (row.option.empty()) return "";
  if (row.path.starts_with("train.") || row.path.starts_with("checkpoint."))
    return fmt::format("dlrun-trainer {} ...", row.option);
  const bool is_switch = std::holds_alternative<Access<std::optional<bool>>>(row.field);
  const bool is_step = row.path.starts_with("launch.") || row.path.starts_with("container.");
  return fmt::format("{} {}{}", is_step ? "srun" : "#SBATCH", row.option, is_switch ? "" : "=...");
}

[[nodiscard]] std::string nested(const KeyRow& row) {
  const auto names = split(row.path, '.');
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}: ", i == 0 ? "" : "{", names[i]);
  // Inside braces, a comma or a bracket would end a value without quotes.
  const bool wants_quotes = names.size() > 1 && !row.example.starts_with('[') &&
                            !row.example.starts_with('{') &&
                            row.example.find_first_of(",[]{}") != std::string_view::npos;
  text += wants_quotes ? fmt::format("\"{}\"", row.example) : std::string(row.example);
  return text + std::string(names.size() - 1, '}');
}

}  // namespace

KeyHelp describe_key(const KeyRow& row) {
  if (!row.is_supported()) return {"not supported yet", "", "", ""};
  return {std::visit(TypeOf{row}, row.field), range_of(row), made_by(row), nested(row)};
}

std::vector<const KeyRow*> keys_below(std::string_view section) {
  std::vector<const KeyRow*> rows;
  for (const KeyRow& row : spec_keys()) {
    const bool is_below = section.empty() || row.path == section ||
                          (row.path.starts_with(section) && row.path[section.size()] == '.');
    if (is_below) rows.push_back(&row);
  }
  return rows;
}

namespace {

/// Returns the key above path that takes a map of free names; nullptr if there is none.
[[nodiscard]] const KeyRow* map_above(std::string_view path) {
  for (auto dot = path.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = path.rfind('.', dot - 1)) {
    const KeyRow* row = find_key(path.substr(0, dot));
    const bool is_map =
        row != nullptr && (std::holds_alternative<Access<NamedValues>>(row->field) ||
                           std::holds_alternative<Access<std::vector<SlurmOption>>>(row->field) ||
                           std::holds_alternative<Access<std::vector<SweptKey>>>(row->field));
    if (is_map) return row;
  }
  return nullptr;
}

}  // namespace

std::optional<std::string_view> similar_key(std::string_view path) {
  std::vector<std::string_view> names;
  for (const KeyRow& row : spec_keys()) names.push_back(row.path);
  if (const auto similar = nearest(path, names)) return similar;
  for (const std::string_view name : names) {
    if (name.substr(name.rfind('.') + 1) == path) return name;
  }
  return std::nullopt;
}

std::string no_such_key(std::string_view path) {
  if (const KeyRow* map = map_above(path)) {
    return fmt::format(
        "'{}' is no key of its own, but a name in the map that the key '{}' is; see `dlrun explain "
        "{}`",
        printable(path), map->path, map->path);
  }
  if (const auto similar = similar_key(path))
    return fmt::format("there is no key '{}'; did you mean '{}'?", printable(path), *similar);
  return fmt::format("there is no key '{}'; `dlrun explain` lists them", printable(path));
}

}  // namespace dlrun
