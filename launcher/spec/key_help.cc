#include "launcher/spec/key_help.h"

#include <utility>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/value_functions.h"

namespace dlrun {
namespace {

[[nodiscard]] std::string range_of(const KeyRow& row) {
  if (row.format == Format::kChoice) return fmt::format("one of: {}", row.choices);
  if (row.min != 0 || row.max != 0) return fmt::format("{} to {}", row.min, row.max);
  if (row.format == Format::kSlug) return "at most 64 characters";
  if (row.format == Format::kCount) return "from 1";
  return std::string(traits_of(row).limits);
}

[[nodiscard]] std::string option_made_from(const KeyRow& row) {
  if (row.path == "checkpoint.signal_before"_key) return "#SBATCH --signal=B:USR1@...";
  const std::string_view option = row.option.name.empty() ? "--NAME" : row.option.name;
  const std::string_view value = traits_of(row).is_switch ? "" : "=...";
  switch (row.option.target) {
    case KeyTarget::kNone:
      return "";
    case KeyTarget::kSbatch:
      return fmt::format("#SBATCH {}{}", option, value);
    case KeyTarget::kSrun:
    case KeyTarget::kContainer:
      return fmt::format("srun {}{}", option, value);
    case KeyTarget::kTrainer:
      return fmt::format("dlrun-trainer {}{}", option, row.option.is_switch ? "" : " ...");
  }
  return "";
}

[[nodiscard]] std::string nested_example(const KeyRow& row) {
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

KeyDescription describe_key(const KeyRow& row) {
  if (!row.is_supported()) return {"not supported yet", "", "", ""};
  return {type_in_words(row), range_of(row), option_made_from(row), nested_example(row)};
}

std::vector<const KeyRow*> keys_at_or_below(std::string_view section) {
  std::vector<const KeyRow*> rows;
  for (const KeyRow& row : spec_keys()) {
    const bool is_at_or_below = section.empty() || row.path == section ||
                                (row.path.starts_with(section) && row.path[section.size()] == '.');
    if (is_at_or_below) rows.push_back(&row);
  }
  return rows;
}

namespace {

/// Returns the key above path whose value is a map of arbitrary names; nullptr if there is none.
[[nodiscard]] const KeyRow* map_above(std::string_view path) {
  for (auto dot = path.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = path.rfind('.', dot - 1)) {
    const KeyRow* row = find_key(path.substr(0, dot));
    if (row != nullptr && traits_of(*row).is_map) return row;
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

std::string_view replacement_for_key(std::string_view name) {
  for (const std::string_view mail :
       {"mail", "email", "mail_type", "mail-type", "mail_user", "mail-user"}) {
    if (name == mail) return "slurm: {mail-type: ALL, mail-user: me@example.org}";
  }
  return {};
}

std::optional<std::string_view> key_of_other_word(std::string_view word) {
  constexpr std::pair<std::string_view, const char*> kOtherWords[] = {
      {"afterany", "after.any"_key},
      {"afternotok", "after.notok"_key},
      {"afterok", "after.ok"_key},
      {"cmd", "launch.command"_key},
      {"cpus", "resources.cpus_per_task"_key},
      {"dependency", "after.ok"_key},
      {"depends_on", "after.ok"_key},
      {"env", "environment.vars"_key},
      {"memory", "resources.mem"_key},
      {"okay", "after.ok"_key},
      {"params", "sweep.parameters"_key},
      {"program", "launch.command"_key},
      {"queue", "resources.partition"_key},
      {"ranks", "resources.tasks_per_node"_key},
      {"restarts", "retry.max"_key},
      {"retries", "retry.max"_key},
      {"script", "launch.command"_key},
      {"task", "resources.tasks_per_node"_key},
      {"tasks", "resources.tasks_per_node"_key},
      {"timelimit", "resources.time"_key},
      {"walltime", "resources.time"_key},
  };
  for (const auto& [other, key] : kOtherWords) {
    if (word == other) return key;
  }
  return std::nullopt;
}

std::string no_such_key_message(std::string_view path) {
  if (const auto instead = replacement_for_key(path); !instead.empty()) {
    return fmt::format("there is no key '{}'; write `{}` (see `dlrun explain slurm`)",
                       printable(path), instead);
  }
  if (const KeyRow* map = map_above(path)) {
    return fmt::format("'{}' is not a key, but a name in the map '{}'; see `dlrun explain {}`",
                       printable(path), map->path, map->path);
  }
  const auto meant = key_of_other_word(path);
  if (const auto similar = meant ? meant : similar_key(path))
    return fmt::format("there is no key '{}'; did you mean '{}'?", printable(path), *similar);
  return fmt::format("there is no key '{}'; `dlrun explain` lists all keys", printable(path));
}

}  // namespace dlrun
