#include "launcher/spec/spec_keys.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/keys/job_keys.h"
#include "launcher/spec/keys/program_keys.h"
#include "launcher/spec/keys/run_keys.h"
#include "launcher/spec/keys/train_keys.h"
#include "launcher/spec/slurm_units.h"

namespace dlrun {
namespace {

/// Returns the rows of all groups as one table.
template <std::size_t... kSizes>
consteval auto joined(const KeyRow (&... groups)[kSizes]) {
  std::array<KeyRow, (kSizes + ...)> rows;
  auto end = rows.begin();
  ((end = std::copy(std::begin(groups), std::end(groups), end)), ...);
  return rows;
}

constexpr auto kKeys = joined(keys::kJobKeys, keys::kProgramKeys, keys::kTrainKeys, keys::kRunKeys);

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kShorthands{{
    {"environment.modules", "environment.modules.load"},
    {"environment.conda", "environment.conda.name"},
    {"train.optimizer", "train.optimizer.name"},
    {"train.data", "train.data.path"},
    {"health.known_bad", "health.known_bad.for"},
}};

[[nodiscard]] bool is_below(std::string_view path, std::string_view section) {
  return section.empty() ||
         (path.size() > section.size() && path.substr(0, section.size()) == section &&
          path[section.size()] == '.');
}

struct TextOf {
  JobSpec& spec;
  using Text = std::optional<std::string>;
  Text operator()(std::monostate) const { return std::nullopt; }
  Text operator()(Access<std::optional<std::string>> get) const { return get(spec); }
  Text operator()(Access<std::optional<std::int64_t>> get) const { return number(get(spec)); }
  Text operator()(Access<std::optional<double>> get) const { return number(get(spec)); }
  Text operator()(Access<std::optional<bool>> get) const {
    return get(spec) ? Text(*get(spec) ? "true" : "false") : std::nullopt;
  }
  Text operator()(Access<std::optional<NodeRange>> get) const {
    return get(spec) ? Text(format_nodes(*get(spec))) : std::nullopt;
  }
  Text operator()(Access<std::optional<Gpus>> get) const {
    return get(spec) ? Text(format_gpus(*get(spec))) : std::nullopt;
  }
  Text operator()(Access<std::vector<std::string>> get) const {
    return get(spec).empty() ? std::nullopt : Text(join(get(spec), ","));
  }
  template <typename List>
  Text operator()(Access<List>) const {
    return std::nullopt;
  }

  template <typename Number>
  [[nodiscard]] static Text number(const std::optional<Number>& value) {
    return value ? Text(fmt::format("{}", *value)) : std::nullopt;
  }
};

}  // namespace

std::span<const KeyRow> spec_keys() {
  return kKeys;
}

const KeyRow* find_key(std::string_view path) {
  const auto* found = std::find_if(std::begin(kKeys), std::end(kKeys),
                                   [&](const KeyRow& row) { return row.path == path; });
  return found == std::end(kKeys) ? nullptr : found;
}

bool is_section(std::string_view path) {
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&](const KeyRow& row) { return is_below(row.path, path); });
}

std::string_view section_shorthand(std::string_view section) {
  for (const auto& [name, key] : kShorthands) {
    if (name == section) return key;
  }
  return {};
}

std::vector<std::string_view> names_in_section(std::string_view section) {
  std::vector<std::string_view> names;
  for (const KeyRow& row : kKeys) {
    if (!is_below(row.path, section)) continue;
    std::string_view rest = section.empty() ? row.path : row.path.substr(section.size() + 1);
    rest = rest.substr(0, rest.find('.'));
    if (std::find(names.begin(), names.end(), rest) == names.end()) names.push_back(rest);
  }
  return names;
}

std::optional<std::string> option_text(const KeyRow& row, const JobSpec& spec) {
  // Access takes a mutable spec because loading writes through it; this code only reads.
  return std::visit(TextOf{const_cast<JobSpec&>(spec)},
                    row.field);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace dlrun
