// Makes resolved.yaml, which lists every value of a spec that was set, and parameters.json, which
// leaves out notify and track.

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/json_read.h"
#include "common/text.h"
#include "launcher/spec/load.h"
#include "launcher/spec/value_functions.h"

namespace dlrun {
namespace {

/// Writes one line per value: its name, the value, its origin. Opens the sections of a path when
/// the first value in them is written.
class YamlWriter {
 public:
  void write(const EffectiveValue& value) {
    const auto names = split(value.key, '.');
    open({names.begin(), names.end() - 1});
    text_ += fmt::format("{:{}}{}: {}  # {}\n", "", 2 * (names.size() - 1), names.back(),
                         value.text, describe(value.origin));
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void open(const std::vector<std::string_view>& sections) {
    std::size_t same = 0;
    while (same < std::min(sections.size(), open_.size()) && sections[same] == open_[same]) ++same;
    open_.resize(same);
    for (; same < sections.size(); ++same) {
      text_ += fmt::format("{:{}}{}:\n", "", 2 * same, sections[same]);
      open_.emplace_back(sections[same]);
    }
  }

  std::vector<std::string> open_;  ///< the sections that contain the line written last
  std::string text_;
};

/// Returns the spec in the form that may be shown: the address of notify.webhook.url becomes the
/// name of the secret under which the run keeps it. Returns nullopt if the spec has no address.
std::optional<JobSpec> without_webhook_address(const JobSpec& given) {
  if (!given.notify.webhook_url) return std::nullopt;
  JobSpec spec = given;
  spec.notify.webhook_url.reset();
  spec.notify.webhook_secret = kWebhookUrlSecret;
  const auto origin = spec.origins.find("notify.webhook.url");
  if (origin != spec.origins.end()) spec.origins["notify.webhook.secret"] = origin->second;
  return spec;
}

}  // namespace

std::vector<EffectiveValue> effective_values(const JobSpec& given) {
  const std::optional<JobSpec> shown = without_webhook_address(given);
  const JobSpec& spec = shown ? *shown : given;
  std::vector<EffectiveValue> values;
  const auto add = [&](std::string key, std::string text) {
    const auto origin = spec.origins.find(key);
    values.push_back({std::move(key), std::move(text),
                      origin == spec.origins.end() ? Origin{} : origin->second});
  };
  for (const KeyRow& row : spec_keys()) {
    if (auto text = value_yaml(row, spec)) add(std::string(row.path), std::move(*text));
    for (auto& [name, text] : entries_yaml(row, spec))
      add(fmt::format("{}.{}", row.path, name), std::move(text));
  }
  return values;
}

std::string parameters_json(const LoadedSpec& loaded) {
  if (!loaded.spec.track.mlflow_url) return {};
  nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
  for (const EffectiveValue& value : effective_values(loaded.spec)) {
    if (value.key.starts_with("notify.") || value.key.starts_with("track.")) continue;
    // A text in quotes is JSON, so parsing it removes the quotes.
    const auto parsed = parse_json(value.text);
    parameters[value.key] = parsed.is_string() ? parsed.get<std::string>() : value.text;
  }
  return json_read::dump(parameters, 2) + "\n";
}

std::string resolved_yaml(const LoadedSpec& loaded) {
  JobSpec spec = loaded.spec;
  if (spec.sweep.is_given() && loaded.templates.is_given()) {
    spec.launch.command = loaded.templates.command;
    spec.environment.vars = loaded.templates.vars;
    spec.components = loaded.templates.components;
  }
  // With chdir, the job starts in the same folder, wherever resolved.yaml is stored.
  const auto chdir = std::find_if(spec.slurm.begin(), spec.slurm.end(),
                                  [](const SlurmOption& o) { return o.name == "chdir"; });
  if (chdir == spec.slurm.end()) {
    spec.slurm.push_back({"chdir", loaded.folder});
  } else if (chdir->value) {
    chdir->value =
        (std::filesystem::path(loaded.folder) / *chdir->value).lexically_normal().string();
  }
  YamlWriter writer;
  for (const EffectiveValue& value : effective_values(spec)) writer.write(value);
  return writer.take();
}

}  // namespace dlrun
