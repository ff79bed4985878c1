// Walks a document by the key table. Each value goes to set_value() (value_functions.cc), which
// sets the member unless a stronger layer has set it already.
#include "launcher/spec/spec_builder.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "common/hostlist.h"
#include "common/quoting.h"
#include "common/text.h"
#include "launcher/spec/key_help.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/validate.h"
#include "launcher/spec/value_setter.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

[[nodiscard]] std::string path_below(const std::string& section, std::string_view name) {
  return section.empty() ? std::string(name) : section + "." + std::string(name);
}

[[nodiscard]] std::string_view last_name(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

/// Returns true if the section has keys, but none that is supported yet.
[[nodiscard]] bool is_unsupported_section(std::string_view section) {
  bool found = false;
  for (const KeyRow& row : spec_keys()) {
    if (row.path.size() > section.size() && row.path.substr(0, section.size()) == section &&
        row.path[section.size()] == '.') {
      if (row.is_supported()) return false;
      found = true;
    }
  }
  return found;
}

}  // namespace

std::string_view kind_name(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return "a single value";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
  }
  return "";
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_';
         });
}

bool is_slug(std::string_view text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= 64 && text[0] != '-' && text[0] != '.' &&
         std::all_of(text.begin(), text.end(), is_allowed);
}

std::string line_of(std::string_view text, int line) {
  for (int at = 1; at < line; ++at) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return "";
    text.remove_prefix(end + 1);
  }
  std::string_view found = text.substr(0, text.find('\n'));
  if (!found.empty() && found.back() == '\r') found.remove_suffix(1);
  return std::string(found);
}

Result<std::string> absolute_path(std::string_view path, std::string_view base_dir,
                                  const Env& env) {
  if (path.empty()) return fail(Errc::kInvalid, "an empty path");
  std::filesystem::path result;
  if (path == "~" || path.substr(0, 2) == "~/") {
    const auto home = env.get("HOME");
    if (!home || home->empty())
      return fail(Errc::kNotFound, "'{}' needs $HOME, which is empty or not set", printable(path));
    result = std::filesystem::path(*home) / path.substr(path.size() > 1 ? 2 : 1);
  } else {
    result = std::filesystem::path(base_dir) / path;
  }
  std::string text = result.lexically_normal().string();
  if (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

Result<std::string> substitute_variables(std::string_view text, const Env& env) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto open = text.find("${");
    if (open == std::string_view::npos) break;
    if (open > 0 && text[open - 1] == '$') {  // $${ is a literal ${
      result += text.substr(0, open - 1);
      result += "${";
      text.remove_prefix(open + 2);
      continue;
    }
    const auto close = text.find('}', open);
    const std::string_view name =
        text.substr(open + 2, close == std::string_view::npos ? close : close - open - 2);
    if (close == std::string_view::npos || !is_variable_name(name)) {
      return fail(
          Errc::kInvalid,
          "dlrun replaces only ${{NAME}}, at submission; write $${{ for a ${{ that the job's "
          "shell should see");
    }
    const auto value = env.get(name);
    if (!value) {
      return fail(
          Errc::kNotFound,
          "${{{0}}} is not set in this environment; set the variable, or write {{{0}}} for a "
          "parameter of a sweep, or $${{{0}}} for a ${{{0}}} that a shell of the job expands",
          name);
    }
    result += text.substr(0, open);
    result += *value;
    text.remove_prefix(close + 1);
  }
  return result += text;
}

bool uses_variable(std::string_view text, std::string_view name) {
  const std::string reference = fmt::format("${{{}}}", name);
  for (auto at = text.find(reference); at != std::string_view::npos;
       at = text.find(reference, at + 1)) {
    if (at == 0 || text[at - 1] != '$') return true;
  }
  return false;
}

Origin SpecBuilder::origin(const Layer& layer, const YamlNode& node) const {
  Origin where{layer.source.kind, layer.source.name, node.line, node.column};
  if (node.line == 1) where.column += layer.source.column_shift;
  return where;
}

void SpecBuilder::error(const Layer& layer, const YamlNode& node, std::string_view path,
                        std::string message) {
  refused_.emplace(path);
  report({Diagnostic::Severity::kError,
          origin(layer, node),
          std::move(message),
          {line_of(layer.source.text, node.line)},
          std::string(path)});
}

void SpecBuilder::warn(const Layer& layer, const YamlNode& node, std::string message) {
  report({Diagnostic::Severity::kWarning,
          origin(layer, node),
          std::move(message),
          {line_of(layer.source.text, node.line)}});
}

std::vector<std::pair<const YamlNode*, const YamlNode*>> SpecBuilder::entries(
    const Layer& layer, const YamlNode& map, const std::string& path) {
  std::vector<std::pair<const YamlNode*, const YamlNode*>> found;
  std::map<std::string_view, int> seen;
  for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
    const YamlNode& key = layer.document.at(map.items[i]);
    if (key.kind != YamlNode::Kind::kScalar) {
      error(layer, key, path,
            fmt::format("{}{}a key is a word, not {}", path, path.empty() ? "" : ": ",
                        kind_name(key)));
      continue;
    }
    const auto [first, is_new] = seen.emplace(key.text, key.line);
    if (!is_new) {
      error(layer, key, path,
            fmt::format("'{}' is given twice; the first is at line {}", path_below(path, key.text),
                        first->second));
      continue;
    }
    found.emplace_back(&key, &layer.document.at(map.items[i + 1]));
  }
  return found;
}

void SpecBuilder::apply_at(const YamlDocument& document, YamlId id, std::string_view path,
                           const SpecSource& source) {
  const Layer layer{document, source};
  const YamlNode& node = document.at(id);
  if (path.empty()) {
    if (node.kind == YamlNode::Kind::kMap) return walk_section(layer, node, "");
    if (node.kind != YamlNode::Kind::kNull)
      error(layer, node, "", fmt::format("a spec is a map of keys, not {}", kind_name(node)));
    return;
  }
  if (const KeyRow* row = find_key(path)) return set_key(layer, *row, node, std::string(path));
  if (is_section(path)) return set_section(layer, node, std::string(path));
  // An entry of a map with arbitrary names: the row is the key that is a prefix of the path.
  for (const KeyRow& row : spec_keys()) {
    if (path.size() > row.path.size() && path.substr(0, row.path.size()) == row.path &&
        path[row.path.size()] == '.') {
      if (!row.is_supported()) break;
      return set_map_entry(*this, document, source, row, node, path.substr(row.path.size() + 1));
    }
  }
  const auto dot = path.rfind('.');
  YamlNode key;
  key.line = 1;
  key.column = 1 - source.column_shift;  // the start of the argument
  key.text = last_name(path);
  report_unknown_key(layer, key,
                     dot == std::string_view::npos ? "" : std::string(path.substr(0, dot)),
                     std::string(path));
}

std::optional<std::pair<std::string, Origin>> SpecBuilder::take_base() {
  if (!spec_.base) return std::nullopt;
  std::pair taken(std::move(*spec_.base), spec_.origins["base"]);
  spec_.base.reset();
  spec_.origins.erase("base");
  decided_.erase("base");
  return taken;
}

void SpecBuilder::exclude_alternatives() {
  for (const auto& [one, other] : exclusive_keys()) {
    if (spec_.origins.contains(one)) mark_decided(std::string(other));
    if (spec_.origins.contains(other)) mark_decided(std::string(one));
  }
}

void SpecBuilder::walk_section(const Layer& layer, const YamlNode& map,
                               const std::string& section) {
  for (const auto& [key, value] : entries(layer, map, section)) {
    const std::string path = path_below(section, key->text);
    const bool is_one_name = key->text.find('.') == std::string::npos;
    if (const KeyRow* row = is_one_name ? find_key(path) : nullptr) {
      if (!row->is_supported()) {
        error(layer, *key, path, fmt::format("{} is not supported yet", path));
      } else {
        set_key(layer, *row, *value, path);
      }
    } else if (is_one_name && is_section(path)) {
      if (is_unsupported_section(path)) {
        error(layer, *key, path, fmt::format("{} is not supported yet", path));
      } else {
        set_section(layer, *value, path);
      }
    } else {
      report_unknown_key(layer, *key, section, path);
    }
  }
}

void SpecBuilder::set_section(const Layer& layer, const YamlNode& value,
                              const std::string& section) {
  if (value.kind == YamlNode::Kind::kMap) return walk_section(layer, value, section);
  if (value.kind == YamlNode::Kind::kNull && value.text.empty())
    return warn(layer, value, fmt::format("{} is empty", section));
  // A null that is written out removes the whole section from weaker layers.
  if (value.kind == YamlNode::Kind::kNull) {
    for (const KeyRow& row : spec_keys()) {
      if (row.path.starts_with(section) && row.path[section.size()] == '.')
        mark_decided(std::string(row.path));
    }
    return;
  }
  const std::string_view key = key_of_single_value(section);
  if (!key.empty()) return set_key(layer, *find_key(key), value, std::string(key));
  if (section == "notify.webhook") {
    return error(layer, value, section,
                 "notify.webhook is a map: write `webhook: {secret: NAME}`, where NAME is a "
                 "variable that holds the address");
  }
  const std::string_view glued = value.is_plain ? key_lacking_space(value.text) : "";
  if (!glued.empty())
    correct_spellings_.insert(path_below(section, glued.substr(0, glued.size() - 1)));
  error(layer, value, section,
        fmt::format("{} is a map of keys, not {}{}", section, kind_name(value),
                    glued.empty() ? "" : fmt::format("; a space is missing after '{}'", glued)));
}

void SpecBuilder::set_key(const Layer& layer, const KeyRow& row, const YamlNode& value,
                          const std::string& path) {
  if (!row.is_supported())
    return error(layer, value, path, fmt::format("{} is not supported yet", path));
  if (value.kind == YamlNode::Kind::kNull) {
    if (layer.source.kind == Origin::Kind::kFile && value.text.empty())
      warn(layer, value, fmt::format("{} has no value and counts as not given", path));
    mark_decided(path);
    return;
  }
  set_value(*this, layer.document, layer.source, row, value);
}

namespace {

struct Suggestion {
  std::string key;   ///< the key or section that an unknown key probably means; empty: none
  std::string hint;  ///< the end of the error's message
};

/// Searches for a key of the section that is spelt like `name`, then for the key that `name` means
/// in other programs, then for a key of another section with this name. An unknown key of `sweep`
/// is probably a parameter.
Suggestion suggest_key(std::string_view name, const std::string& section) {
  std::string meant;
  const auto other = key_of_other_word(name);
  if (const auto similar = nearest(name, names_in_section(section)))
    return {path_below(section, *similar), fmt::format("; did you mean '{}'?", *similar)};
  if (section == "sweep")
    return {"", "; if it is a parameter to vary, write it below sweep.parameters"};
  if (other && (section.empty() || other->starts_with(section + "."))) {
    meant = *other;
  } else {
    const auto rows = spec_keys();
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const KeyRow& one) { return last_name(one.path) == name; });
    if (row != rows.end()) meant = row->path;
  }
  return {meant, meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant)};
}

/// Returns the suggestion for an unknown key. is_file: the key is in a spec or its base, not in a
/// site file or an argument of --set.
Suggestion suggestion_for(std::string_view name, const std::string& section,
                          const std::string& path, bool is_file) {
  if (name == "<<") return {"", "; merge keys are not part of YAML 1.2"};
  if (const auto key = key_lacking_space(name); !key.empty()) {
    return {path_below(section, key.substr(0, key.size() - 1)),
            fmt::format("; a space is missing after '{}'", key)};
  }
  if (const auto instead = replacement_for_key(name); section.empty() && !instead.empty())
    return {"", fmt::format("; write `{}`", instead)};
  if (find_key(path) != nullptr || is_section(path))
    return {path, "; in a file keys are nested: {section: {key: value}}"};
  const bool is_one_name = name.find('.') == std::string_view::npos;
  if (is_file && is_one_name && (find_key(name) != nullptr || is_section(name))) {
    return {std::string(name),
            fmt::format("; {} is a key of the top level: write it at the start of a line", name)};
  }
  return suggest_key(name, section);
}

}  // namespace

void SpecBuilder::report_unknown_key(const Layer& layer, const YamlNode& key,
                                     const std::string& section, const std::string& path) {
  Suggestion suggestion =
      suggestion_for(key.text, section, path, layer.source.kind == Origin::Kind::kFile);
  if (!suggestion.key.empty()) correct_spellings_.insert(std::move(suggestion.key));
  error(layer, key, path,
        fmt::format("unknown key '{}'{}{}", shown_argument(key.text),
                    section.empty() ? "" : " in " + section, suggestion.hint));
}

namespace {

/// Checks a number, a time, a size, an interval or a node list. Converts a time limit to Slurm's
/// form and a duration to seconds; returns other values unchanged.
Result<std::string> checked_amount(Format format, std::string value) {
  switch (format) {
    case Format::kCount: {
      const auto count = parse_int(value);
      if (!count || *count < 1 || *count > 1'000'000'000)
        return fail(Errc::kInvalid, "'{}' is not a whole number from 1 to 1000000000",
                    printable(value));
      return value;
    }
    case Format::kTimeLimit: {
      const auto seconds = parse_time_limit(value);
      if (!seconds) return tl::unexpected(seconds.error());
      return *seconds ? format_time_limit(**seconds) : "UNLIMITED";
    }
    case Format::kDuration: {
      DLRUN_TRY_ASSIGN(const auto seconds, parse_duration(value));
      return fmt::format("{}", seconds);
    }
    case Format::kNodeList:
      DLRUN_TRY(check_hostlist(value));
      return value;
    case Format::kMemory:
      DLRUN_TRY(check_memory(value));
      return value;
    case Format::kInterval:
      DLRUN_TRY(parse_checkpoint_interval(value));
      return value;
    default:
      return value;
  }
}

/// Checks a name, or a word against the key's choices.
Result<std::string> checked_word(const KeyRow& row, std::string value) {
  if (row.format == Format::kSlug) {
    if (is_slug(value)) return value;
    return fail(Errc::kInvalid,
                "'{}' is not a name: letters, digits, '.', '_' and '-', at most 64, starting "
                "with neither '-' nor '.'",
                printable(value));
  }
  const auto words = split(row.choices, ' ');
  if (std::find(words.begin(), words.end(), value) != words.end()) return value;
  const auto similar = nearest(value, words);
  return fail(Errc::kInvalid, "'{}' is not one of: {}{}", printable(value), row.choices,
              similar ? fmt::format("; did you mean '{}'?", *similar) : "");
}

}  // namespace

Result<std::string> SpecBuilder::scalar(const YamlNode& node, std::string_view expected) const {
  if (node.kind != YamlNode::Kind::kScalar)
    return fail(Errc::kInvalid, "expected {}, not {}", expected, kind_name(node));
  return substitute_variables(node.text, env_);
}

Result<std::string> SpecBuilder::text(const Layer& layer, const KeyRow& row, const YamlNode& node,
                                      std::string_view expected) {
  auto value = scalar(node, expected);
  if (!value) return value;
  auto checked = checked_text(layer, row, std::move(*value), node);
  if (checked && row.format == Format::kMemory) warn_of_missing_unit(layer, row, *checked, node);
  return checked;
}

void SpecBuilder::warn_of_missing_unit(const Layer& layer, const KeyRow& row,
                                       std::string_view memory, const YamlNode& node) {
  // A smaller number is probably meant in GiB.
  constexpr std::int64_t kLeastPlausibleMib = 256;
  const auto number = parse_int(memory);  // nullopt for a number with a unit
  if (!number || *number == 0 || *number >= kLeastPlausibleMib || decided_.contains(row.path))
    return;
  warn(layer, node,
       fmt::format("{0}: {1} without a unit means {1} MiB; write {1}G for {1} GiB, or {1}M if you "
                   "mean {1} MiB",
                   row.path, *number));
}

Result<std::string> SpecBuilder::checked_text(const Layer& layer, const KeyRow& row,
                                              std::string value, const YamlNode& node) {
  if (value.find('\0') != std::string::npos)
    return fail(Errc::kInvalid, "a NUL byte cannot be passed to a program");
  if (!is_utf8(value)) return fail(Errc::kInvalid, "the text is not UTF-8");
  if (row.format == Format::kLines) return value;
  if (value.empty()) return fail(Errc::kInvalid, "is empty");
  if (const auto control = std::find_if(value.begin(), value.end(), is_control);
      control != value.end())
    return fail(Errc::kInvalid, "holds the control character 0x{:02x}",
                static_cast<unsigned char>(*control));
  const auto warn_of_dollar = [&](std::string_view path) {
    const auto dollar = path.find('$');
    if (dollar != std::string_view::npos && dollar + 1 < path.size() &&
        is_variable_name(path.substr(dollar + 1, 1))) {
      warn(layer, node,
           fmt::format("{}: '$' stays as it is in a path; write ${{NAME}} for the variable's value",
                       row.path));
    }
  };
  switch (row.format) {
    case Format::kText:
    case Format::kLines:
    case Format::kTextOrSwitch:
      return value;
    case Format::kSlug:
    case Format::kChoice:
      return checked_word(row, std::move(value));
    case Format::kImage:
      if (!(value[0] == '/' || value.substr(0, 2) == "./" || value.substr(0, 3) == "../" ||
            value.substr(0, 2) == "~/"))
        return value;
      [[fallthrough]];
    case Format::kMaybePath:
      if (value.find('/') == std::string::npos) return value;
      [[fallthrough]];
    case Format::kPath:
      warn_of_dollar(value);
      return absolute_path(value, layer.source.base_dir, env_);
    case Format::kPathPattern: {
      warn_of_dollar(value);
      auto path = absolute_path(value, escaped_for_sbatch_pattern(layer.source.base_dir), env_);
      if (path && path->find('\\') != std::string::npos)
        return fail(Errc::kInvalid, "Slurm cannot express a '\\' in this path");
      return path;
    }
    case Format::kContainerPath:
      if (value[0] == '/') return value;
      return fail(Errc::kInvalid, "'{}' is a path inside the container and must start with '/'",
                  printable(value));
    case Format::kCount:
    case Format::kTimeLimit:
    case Format::kDuration:
    case Format::kNodeList:
    case Format::kMemory:
    case Format::kInterval:
      return checked_amount(row.format, std::move(value));
  }
  return value;
}

}  // namespace dlrun
