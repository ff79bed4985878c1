#include "launcher/spec/spec_keys.h"

#include <algorithm>
#include <array>

#include "launcher/spec/keys/component_keys.h"
#include "launcher/spec/keys/data_keys.h"
#include "launcher/spec/keys/job_keys.h"
#include "launcher/spec/keys/program_keys.h"
#include "launcher/spec/keys/run_keys.h"
#include "launcher/spec/keys/train_keys.h"

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

constexpr auto kKeys = joined(keys::kJobKeys, keys::kProgramKeys, keys::kComponentKeys,
                              keys::kDataKeys, keys::kTrainKeys, keys::kRunKeys);

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kShorthands{{
    {"environment.modules", "environment.modules.load"},
    {"environment.conda", "environment.conda.name"},
    {"environment.uv", "environment.uv.project"},
    {"environment.pixi", "environment.pixi.project"},
    {"environment.uenv", "environment.uenv.images"},
    {"train.optimizer", "train.optimizer.name"},
    {"train.data", "train.data.path"},
    {"health.known_bad", "health.known_bad.for"},
    {"profile", "profile.tool"},
}};

[[nodiscard]] bool is_below(std::string_view path, std::string_view section) {
  return section.empty() ||
         (path.size() > section.size() && path.substr(0, section.size()) == section &&
          path[section.size()] == '.');
}

}  // namespace

std::span<const KeyRow> spec_keys() {
  return kKeys;
}

const KeyRow* find_key(std::string_view path) {
  const auto* found = std::find_if(std::begin(kKeys), std::end(kKeys),
                                   [&](const KeyRow& row) { return row.path == path; });
  return found == std::end(kKeys) ? nullptr : found;
}

const KeyRow* find_sbatch_key(std::string_view option) {
  const auto* found = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const KeyRow& row) {
    return row.option.target == KeyTarget::kSbatch && row.option.name == option;
  });
  return found == std::end(kKeys) ? nullptr : found;
}

bool is_section(std::string_view path) {
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&](const KeyRow& row) { return is_below(row.path, path); });
}

std::string_view key_of_single_value(std::string_view section) {
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

}  // namespace dlrun
