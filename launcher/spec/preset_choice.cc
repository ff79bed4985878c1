#include "launcher/spec/preset_choice.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/component_specs.h"
#include "launcher/spec/config_reader.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

[[nodiscard]] Origin origin_of_preset(const JobSpec& spec) {
  const auto origin = spec.origins.find("launch.preset"_key);
  return origin == spec.origins.end() ? Origin{} : origin->second;
}

/// Reads a preset and reports its problems. where: the origin of `name`.
[[nodiscard]] Preset read_named_preset(SpecBuilder& builder, const LoadRequest& request,
                                       const std::string& name, const Origin& where) {
  std::vector<Diagnostic> problems = unsearchable_folder_warnings("presets", request.config_dirs);
  const auto file = find_config("presets", name, request.config_dirs, problems);
  Preset preset;
  preset.name = name;
  if (file) {
    preset = read_preset(*file, name, problems);
  } else if (std::none_of(problems.begin(), problems.end(), is_error)) {
    const auto names = config_names("presets", request.config_dirs);
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    const auto similar = nearest(name, candidates);
    problems.push_back({Diagnostic::Severity::kError, where,
                        fmt::format("launch.preset: there is no preset '{}'; {}", name,
                                    similar ? fmt::format("did you mean '{}'?", *similar)
                                            : "known: " + join(names, " ")),
                        ""});
    preset.is_trainer = true;  // suppresses the error about a missing command
  }
  for (Diagnostic& problem : problems) builder.report(std::move(problem));
  return preset;
}

}  // namespace

Preset choose_preset(SpecBuilder& builder, const LoadRequest& request) {
  auto& launch = builder.spec().launch;
  if (!launch.preset && !builder.refused().contains("launch.preset"_key)) {
    const bool has_command =
        !launch.command.empty() || builder.refused().contains("launch.command"_key);
    launch.preset = has_command ? "plain" : "trainer";
  }
  Preset preset = read_named_preset(builder, request, launch.preset.value_or("plain"),
                                    origin_of_preset(builder.spec()));
  Resources& resources = builder.spec().resources;
  const auto is_refused = [&](const char* key) { return builder.refused().contains(key); };
  if (preset.is_node_launcher && !resources.tasks_per_node && !resources.ntasks &&
      !is_refused("resources.tasks_per_node"_key) && !is_refused("resources.ntasks"_key)) {
    resources.tasks_per_node = 1;
    builder.spec().origins["resources.tasks_per_node"_key] = {Origin::Kind::kPreset, preset.source,
                                                              0, 0};
  }
  return preset;
}

void choose_component_presets(SpecBuilder& builder, const LoadRequest& request,
                              LoadedSpec& loaded) {
  std::map<std::string, Preset, std::less<>> presets;
  for (const ComponentSpec& component : builder.spec().components) {
    const JobSpec spec = spec_of_component(builder.spec(), component);
    const std::string name =
        spec.launch.preset.value_or(spec.launch.command.empty() ? "trainer" : "plain");
    auto found = presets.find(name);
    if (found == presets.end()) {
      found =
          presets.emplace(name, read_named_preset(builder, request, name, origin_of_preset(spec)))
              .first;
    }
    loaded.component_presets.push_back(found->second);
  }
  loaded.preset.name = "plain";
}

}  // namespace dlrun
