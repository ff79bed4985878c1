// Writes the effective spec as YAML: every value that was set, with its origin.

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/load.h"
#include "launcher/spec/own_parameters.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

/// Writes one line per value: its name, the value, its origin. Opens the sections of a path when
/// the first value in them is written.
class YamlWriter {
 public:
  void value(const EffectiveValue& value) {
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

  std::vector<std::string> open_;
  std::string text_;
};

[[nodiscard]] std::string flow_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + yaml_string(word);
  return "[" + text + "]";
}

[[nodiscard]] std::string flow_secrets(const std::vector<SecretSource>& secrets) {
  std::string text;
  for (const SecretSource& secret : secrets) {
    text += text.empty() ? "" : ", ";
    text += secret.file.empty() ? yaml_string(secret.name)
                                : fmt::format("{{\"name\": {}, \"file\": {}}}",
                                              yaml_string(secret.name), yaml_string(secret.file));
  }
  return "[" + text + "]";
}

[[nodiscard]] std::string flow_points(const std::vector<SweepPoint>& points) {
  std::string text;
  for (const SweepPoint& point : points) {
    text += text.empty() ? "{" : ", {";
    for (std::size_t i = 0; i < point.size(); ++i)
      text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", yaml_string(point[i].key), point[i].text);
    text += "}";
  }
  return "[" + text + "]";
}

/// Returns an end of a range. For an own parameter its form tells whether the range is one of whole
/// numbers.
[[nodiscard]] std::string end_of_range(const SweptKey& key, double end) {
  std::string text = fmt::format("{}", end);
  if (!key.range->is_whole && is_own_parameter(key.key) && parse_int(text)) text += ".0";
  return text;
}

[[nodiscard]] std::string flow_swept(const std::vector<SweptKey>& keys) {
  std::string text;
  for (const SweptKey& key : keys) {
    text += fmt::format("{}{}: ", text.empty() ? "" : ", ", yaml_string(key.key));
    if (key.range) {
      text += fmt::format("{{min: {}, max: {}, log: {}}}", end_of_range(key, key.range->min),
                          end_of_range(key, key.range->max), key.range->is_log);
      continue;
    }
    text += "[";
    for (std::size_t i = 0; i < key.values.size(); ++i)
      text += (i == 0 ? "" : ", ") + key.values[i].text;
    text += "]";
  }
  return "{" + text + "}";
}

[[nodiscard]] std::string flow_mounts(const std::vector<Mount>& mounts) {
  std::string text;
  for (const Mount& mount : mounts) {
    text +=
        fmt::format("{}{{\"source\": {}, \"target\": {}, \"flags\": {}}}", text.empty() ? "" : ", ",
                    yaml_string(mount.source), yaml_string(mount.target), flow_list(mount.flags));
  }
  return "[" + text + "]";
}

[[nodiscard]] std::string flow_downloads(const std::vector<Download>& downloads) {
  std::string text;
  for (const Download& one : downloads) {
    text += fmt::format("{}{{\"url\": {}, \"sha256\": {}, \"file\": {}", text.empty() ? "" : ", ",
                        yaml_string(one.url), yaml_string(one.sha256), yaml_string(one.file));
    text += one.bytes ? fmt::format(", \"bytes\": {}}}", *one.bytes) : "}";
  }
  return "[" + text + "]";
}

}  // namespace

std::vector<EffectiveValue> effective_values(const JobSpec& of) {
  JobSpec spec = of;  // a copy, because the key table accesses mutable members
  std::vector<EffectiveValue> values;
  const auto add = [&](std::string key, std::string text) {
    const auto origin = spec.origins.find(key);
    values.push_back({std::move(key), std::move(text),
                      origin == spec.origins.end() ? Origin{} : origin->second});
  };
  for (const KeyRow& row : spec_keys()) {
    const std::string key(row.path);
    if (const auto* list = std::get_if<Access<std::vector<std::string>>>(&row.field)) {
      if (!(*list)(spec).empty()) add(key, flow_list((*list)(spec)));
    } else if (const auto* mounts = std::get_if<Access<std::vector<Mount>>>(&row.field)) {
      if (!(*mounts)(spec).empty()) add(key, flow_mounts((*mounts)(spec)));
    } else if (const auto* secrets = std::get_if<Access<std::vector<SecretSource>>>(&row.field)) {
      if (!(*secrets)(spec).empty()) add(key, flow_secrets((*secrets)(spec)));
    } else if (const auto* downloads = std::get_if<Access<std::vector<Download>>>(&row.field)) {
      if (!(*downloads)(spec).empty()) add(key, flow_downloads((*downloads)(spec)));
    } else if (const auto* variables = std::get_if<Access<NamedValues>>(&row.field)) {
      for (const auto& [name, value] : (*variables)(spec))
        add(key + "." + name, yaml_string(value));
    } else if (const auto* options = std::get_if<Access<std::vector<SlurmOption>>>(&row.field)) {
      for (const SlurmOption& option : (*options)(spec))
        add(key + "." + option.name, option.value ? yaml_string(*option.value) : "true");
    } else if (const auto* swept = std::get_if<Access<std::vector<SweptKey>>>(&row.field)) {
      if (!(*swept)(spec).empty()) add(key, flow_swept((*swept)(spec)));
    } else if (const auto* points = std::get_if<Access<std::vector<SweepPoint>>>(&row.field)) {
      if (!(*points)(spec).empty()) add(key, flow_points((*points)(spec)));
    } else if (const auto text = option_text(row, spec)) {
      add(key, yaml_text(*text));
    }
  }
  return values;
}

std::string resolved_yaml(const LoadedSpec& loaded) {
  // Names the folder, so that the job starts there wherever resolved.yaml is stored.
  JobSpec spec = loaded.spec;
  if (spec.sweep.is_given() && loaded.templates.is_given()) {
    spec.launch.command = loaded.templates.command;
    spec.environment.vars = loaded.templates.vars;
  }
  const auto chdir = std::find_if(spec.slurm.begin(), spec.slurm.end(),
                                  [](const SlurmOption& o) { return o.name == "chdir"; });
  if (chdir == spec.slurm.end()) {
    spec.slurm.push_back({"chdir", loaded.folder});
  } else if (chdir->value) {
    chdir->value =
        (std::filesystem::path(loaded.folder) / *chdir->value).lexically_normal().string();
  }
  YamlWriter writer;
  for (const EffectiveValue& value : effective_values(spec)) writer.value(value);
  return writer.take();
}

}  // namespace dlrun
