#include "launcher/spec/sweep_reader.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/key_help.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/load.h"
#include "launcher/spec/program_parameters.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/spec/value_functions.h"
#include "launcher/spec/value_setter.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

/// Removes quotes that the text does not need, because people read the values of a sweep in tables.
/// The texts "true" and "false" keep their quotes, to differ from the booleans.
[[nodiscard]] std::string without_quotes(const std::string& text) {
  if (text.size() < 2 || text.front() != '"') return text;
  const std::string inner = text.substr(1, text.size() - 2);
  return yaml_text(inner) == inner && inner != "true" && inner != "false" ? inner : text;
}

/// Returns the row of a key. For an entry of a map, such as environment.vars.X, returns the row of
/// the map. Returns nullptr if there is no row.
[[nodiscard]] const KeyRow* row_of(std::string_view path) {
  if (const KeyRow* row = find_key(path)) return row;
  for (const KeyRow& row : spec_keys()) {
    if (traits_of(row).has_settable_entries && path.size() > row.path.size() + 1 &&
        path.starts_with(row.path) && path[row.path.size()] == '.')
      return &row;
  }
  return nullptr;
}

}  // namespace

std::string why_not_sweepable(std::string_view path) {
  using Reason = std::pair<std::string_view, std::string_view>;
  constexpr std::array<Reason, 12> kNotSwept{{
      {"name", "all points of a sweep have one name"},
      {"site", "a sweep is submitted to one cluster"},
      {"resources.clusters"_key, "a sweep is submitted to one cluster"},
      {"base", "dlrun reads the base before the sweep"},
      {"environment.secrets"_key, "all points of a sweep have the same secrets"},
      {"download.path"_key, "all points of a sweep have the same files"},
      {"download.files"_key, "all points of a sweep have the same files"},
      {"train.data.download"_key, "all points of a sweep have the same files"},
      {"components", "all points of a sweep have the same programs"},
      {"hetjob", "all points of a sweep request their nodes in the same form"},
      {"code.snapshot"_key, "all points of a sweep run the same code"},
      {"checkpoint.dir"_key, "every point has checkpoints of its own, in its own run"},
  }};
  if (is_program_parameter(path)) return "";
  const KeyRow* row = row_of(path);
  if (row == nullptr && is_section(path))
    return fmt::format(
        "'{}' is a section of the spec: write a key of the section, or choose another name for "
        "your program parameter",
        path);
  if (row == nullptr) return no_such_key_message(path);
  if (!row->is_supported()) return fmt::format("{} is not supported yet", path);
  if (path.starts_with("sweep.")) return "a sweep cannot sweep over itself";
  if (path.starts_with("notify.") || path.starts_with("track."))
    return fmt::format("'{}' cannot be swept: all points report in the same way", path);
  if (path.starts_with("submit."))
    return fmt::format("'{}' cannot be swept: all points are submitted in the same way", path);
  if (path.starts_with("after."))
    return fmt::format("'{}' cannot be swept: all points wait for the same jobs", path);
  for (const auto& [key, why] : kNotSwept) {
    if (path == key) return fmt::format("'{}' cannot be swept: {}", path, why);
  }
  if (row->path == path && traits_of(*row).has_settable_entries)
    return fmt::format("'{}' is a map: sweep over one entry of it, {}.NAME", path, path);
  return "";
}

void SweepReader::refuse(const YamlNode& at, std::string_view why) const {
  builder.error(layer, at, row.path, fmt::format("{}: {}", row.path, why));
}

bool SweepReader::accept_key(const YamlNode& name) const {
  const std::string why = why_not_sweepable(name.text);
  if (!why.empty()) refuse(name, why);
  return why.empty();
}

std::optional<SweptValue> SweepReader::value(const std::string& key, const YamlNode& node) const {
  if (node.kind == YamlNode::Kind::kNull) {
    refuse(node, fmt::format("'{}' has no value here; a sweep cannot remove a value", key));
    return std::nullopt;
  }
  if (is_program_parameter(key)) return program_parameter_value(key, node);
  SpecBuilder scratch(builder.env_, builder.unset_variable_);
  const auto id = static_cast<YamlId>(&node - layer.document.nodes.data());
  scratch.apply_at(layer.document, id, key, layer.source);
  bool is_fine = true;
  for (Diagnostic& found : scratch.diagnostics()) {
    if (found.severity == Diagnostic::Severity::kError) is_fine = false;
    builder.report(std::move(found));
  }
  if (!is_fine || !scratch.refused().empty()) {
    builder.refused_.emplace(row.path);
    return std::nullopt;
  }
  // For an option of Slurm, false means that the option is left out. effective_values() then
  // returns nothing.
  const auto values = effective_values(scratch.spec());
  if (values.empty() && node.text != "false") {
    refuse(node, fmt::format("'{}' is empty here", key));
    return std::nullopt;
  }
  return SweptValue{key, values.empty() ? "false" : without_quotes(values.front().text),
                    builder.origin(layer, node)};
}

std::optional<SweptValue> SweepReader::program_parameter_value(const std::string& key,
                                                               const YamlNode& node) const {
  const auto text = builder.scalar(node, "one value");
  if (!text) {
    refuse(node, fmt::format("'{}': {}", key, text.error().message));
    return std::nullopt;
  }
  if (text->find('\0') != std::string::npos || !is_utf8(*text)) {
    refuse(node, fmt::format("'{}': the text has a NUL or is not UTF-8", key));
    return std::nullopt;
  }
  const bool is_number = parse_double(*text).has_value();
  return SweptValue{key, is_number ? *text : yaml_text(*text), builder.origin(layer, node)};
}

std::optional<std::vector<SweptValue>> SweepReader::list(const std::string& key,
                                                         const YamlNode& node) const {
  if (node.items.empty()) {
    refuse(node, fmt::format("the list of '{}' is empty: a sweep needs values to try", key));
    return std::nullopt;
  }
  std::vector<SweptValue> values;
  std::map<std::string, int> seen;
  bool is_fine = true;
  for (const YamlId id : node.items) {
    const YamlNode& item = layer.document.at(id);
    auto one = value(key, item);
    if (!one) {
      is_fine = false;
      continue;
    }
    const auto [first, is_new] = seen.emplace(one->text, item.line);
    if (!is_new) {
      refuse(item, fmt::format("{} is tried twice for '{}'; the first is at line {}",
                               printable(one->text), key, first->second));
      is_fine = false;
    }
    values.push_back(std::move(*one));
  }
  return is_fine ? std::optional(std::move(values)) : std::nullopt;
}

std::optional<SweptRange> SweepReader::range(const std::string& key, const YamlNode& node) const {
  const bool is_for_program = is_program_parameter(key);
  SweptRange found;
  const ValueTraits traits =
      is_for_program ? ValueTraits{.is_number = true, .is_whole = true} : traits_of(*row_of(key));
  found.is_whole = traits.is_whole;
  if (!traits.is_number) {
    refuse(node,
           fmt::format("'{}' is not a number, so it has no range; give a list of values", key));
    return std::nullopt;
  }
  bool has_min = false, has_max = false, is_fine = true;
  for (const auto& [name, at] : builder.entries(layer, node, std::string(row.path))) {
    if (name->text == "log") {
      found.is_log = at->text == "true";
      if (at->text == "true" || at->text == "false") continue;
      refuse(*at, fmt::format("log of '{}' is not true or false", key));
      is_fine = false;
    } else if (name->text == "min" || name->text == "max") {
      const auto limit = value(key, *at);  // min and max must be valid values of the key
      const bool is_min = name->text == "min";
      is_fine = is_fine && limit.has_value();
      const auto number = limit ? parse_double(limit->text) : std::nullopt;
      if (limit && !number) {
        refuse(*at, fmt::format("{} of '{}' is not a number", name->text, key));
        is_fine = false;
      }
      (is_min ? found.min : found.max) = number.value_or(0);
      // A parameter of the user's program has no type: its values are whole if min and max are.
      if (is_for_program && limit && !parse_int(limit->text)) found.is_whole = false;
      (is_min ? has_min : has_max) = true;
    } else {
      refuse(*name, fmt::format("a range has min, max and log, not '{}'", printable(name->text)));
      is_fine = false;
    }
  }
  if (!is_fine) return std::nullopt;
  const auto wrong = [&]() -> std::string {
    if (!has_min || !has_max) return fmt::format("a range of '{}' needs min and max", key);
    if (found.min >= found.max) return fmt::format("min of '{}' is not below its max", key);
    if (found.is_log && found.min <= 0) return fmt::format("log of '{}' needs a min above 0", key);
    return "";
  }();
  if (wrong.empty()) return found;
  refuse(node, wrong);
  return std::nullopt;
}

std::optional<std::vector<SweptKey>> SweepReader::parameters(const YamlNode& node) const {
  if (node.kind != YamlNode::Kind::kMap || node.items.empty()) {
    refuse(node, "expected a map of names and the values to try, such as {lr: [0.1, 0.01]}");
    return std::nullopt;
  }
  std::vector<SweptKey> keys;
  const std::size_t earlier_diagnostic_count = builder.diagnostics_.size();
  bool is_fine = true;
  for (const auto& [name, value] : builder.entries(layer, node, std::string(row.path))) {
    SweptKey swept{name->text, {}, {}, builder.origin(layer, *name)};
    if (!accept_key(*name)) {
      is_fine = false;
      continue;
    }
    if (value->kind == YamlNode::Kind::kMap) {
      swept.range = range(swept.key, *value);
      is_fine = is_fine && swept.range;
    } else if (value->kind == YamlNode::Kind::kSequence) {
      auto values = list(swept.key, *value);
      is_fine = is_fine && values;
      if (values) swept.values = std::move(*values);
    } else {
      refuse(*value,
             fmt::format("'{}' is {}, not a list of values to try", swept.key, kind_name(*value)));
      is_fine = false;
    }
    keys.push_back(std::move(swept));
  }
  const bool has_new_errors = std::any_of(
      builder.diagnostics_.begin() + static_cast<std::ptrdiff_t>(earlier_diagnostic_count),
      builder.diagnostics_.end(),
      [](const Diagnostic& d) { return d.severity == Diagnostic::Severity::kError; });
  if (is_fine && !has_new_errors) return keys;
  return std::nullopt;
}

std::optional<std::vector<SweepPoint>> SweepReader::points(const YamlNode& node) const {
  if (node.kind != YamlNode::Kind::kSequence || node.items.empty()) {
    refuse(node, "expected a list of points, such as [{train.lr: 0.1}, {train.lr: 0.01}]");
    return std::nullopt;
  }
  if (node.items.size() > kMostSweepPoints) {
    refuse(node, fmt::format("{} points, and a sweep has at most {}", node.items.size(),
                             kMostSweepPoints));
    return std::nullopt;
  }
  std::vector<SweepPoint> points;
  std::map<std::string, int> seen;
  bool is_fine = true;
  for (const YamlId id : node.items) {
    const YamlNode& item = layer.document.at(id);
    if (item.kind != YamlNode::Kind::kMap || item.items.empty()) {
      refuse(item, "a point is a map of keys and values");
      is_fine = false;
      continue;
    }
    SweepPoint point;
    bool is_point_fine = true;
    for (const auto& [name, at] : builder.entries(layer, item, std::string(row.path))) {
      auto one = accept_key(*name) ? value(name->text, *at) : std::nullopt;
      is_point_fine = is_point_fine && one;
      if (one) point.push_back(std::move(*one));
    }
    is_fine = is_fine && is_point_fine && !builder.refused_.contains(row.path);
    const auto [first, is_new] = seen.emplace(describe(point), item.line);
    if (is_point_fine && !is_new) {
      refuse(item,
             fmt::format("this point is listed twice; the first is at line {}", first->second));
      is_fine = false;
    }
    points.push_back(std::move(point));
  }
  return is_fine ? std::optional(std::move(points)) : std::nullopt;
}

}  // namespace dlrun
