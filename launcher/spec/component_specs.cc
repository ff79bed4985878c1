#include "launcher/spec/component_specs.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>

#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/value_functions.h"

namespace dlrun {
namespace {

/// Removes the origins of a value and of its items ("container.mounts[0]").
void remove_origins(Origins& origins, std::string_view key) {
  std::erase_if(origins, [&](const auto& origin) {
    return origin.first.starts_with(key) &&
           (origin.first.size() == key.size() || origin.first[key.size()] == '[');
  });
}

/// Removes the value of a key.
void remove_value(JobSpec& spec, std::string_view key) {
  copy_value(*find_key(key), JobSpec(), spec);
  remove_origins(spec.origins, key);
}

/// Merges the component's environment.vars and launch.srun into those of the spec, entry by entry.
/// The component's entries win.
void merge_entries(JobSpec& spec, const ComponentSpec& component) {
  constexpr std::string_view kVars = "environment.vars.", kSrun = "launch.srun.";
  for (const std::string& key : component.keys) {
    const std::string_view path = key;
    if (path.starts_with(kVars)) {
      std::erase_if(spec.environment.vars,
                    [&](const auto& one) { return one.first == path.substr(kVars.size()); });
    } else if (path.starts_with(kSrun)) {
      std::erase_if(spec.launch.srun,
                    [&](const auto& one) { return one.name == path.substr(kSrun.size()); });
    }
  }
  spec.environment.vars.insert(spec.environment.vars.end(), component.own.environment.vars.begin(),
                               component.own.environment.vars.end());
  spec.launch.srun.insert(spec.launch.srun.end(), component.own.launch.srun.begin(),
                          component.own.launch.srun.end());
}

/// Removes the checks of GPUs from a component without GPUs, because the checks would end its
/// ranks.
void remove_gpu_checks(JobSpec& spec) {
  if (may_have_gpus(spec)) return;
  std::erase_if(spec.health.preflight, [](const PreflightCheck& check) {
    return check.name == "gpu" || check.name == "nccl" || check.name == "rccl" ||
           check.name == "binding";
  });
}

}  // namespace

JobSpec spec_of_component(const JobSpec& whole, const ComponentSpec& component) {
  JobSpec spec = whole;
  spec.components.clear();
  spec.hetjob.reset();
  spec.sweep.reduce_to_point();
  for (const std::string& key : component.keys) {
    remove_origins(spec.origins, key);
    if (const KeyRow* row = find_key(key)) copy_value(*row, component.own, spec);
  }
  merge_entries(spec, component);
  for (const auto& [key, origin] : component.own.origins)
    spec.origins.insert_or_assign(key, origin);
  if (component.own.resources.mem) remove_value(spec, "resources.mem_per_cpu"_key);
  // With one container name for all components, a component would start in the container of another
  // component, whose image may differ.
  const bool gives_name = component.own.container.name.has_value();
  if (spec.container.name && !gives_name) *spec.container.name += "-" + component.name;
  if (component.is_service && !spec.resources.tasks_per_node) spec.resources.tasks_per_node = 1;
  // Each component numbers its ranks and nodes from 0, so the files need separate folders.
  for (OutputCopy& one : spec.outputs)
    one.to = (std::filesystem::path(one.to) / component.name).string();
  remove_gpu_checks(spec);
  return spec;
}

LoadedSpec loaded_spec_of_component(const LoadedSpec& loaded, std::size_t index) {
  LoadedSpec result;
  result.file = loaded.file;
  result.spec = spec_of_component(loaded.spec, loaded.spec.components[index]);
  result.site = loaded.site;
  result.preset = loaded.component_presets[index];
  result.folder = loaded.folder;
  result.spec.launch.preset = result.preset.name;
  if (result.preset.is_node_launcher && !result.spec.resources.tasks_per_node)
    result.spec.resources.tasks_per_node = 1;
  return result;
}

std::vector<LoadedSpec> loaded_specs_of_components(const LoadedSpec& loaded) {
  std::vector<LoadedSpec> specs;
  for (std::size_t i = 0; i < loaded.spec.components.size(); ++i)
    specs.push_back(loaded_spec_of_component(loaded, i));
  return specs;
}

bool runs_trainer(const LoadedSpec& loaded) {
  const auto& presets = loaded.component_presets;
  return loaded.preset.is_trainer ||
         std::any_of(presets.begin(), presets.end(),
                     [](const Preset& preset) { return preset.is_trainer; });
}

}  // namespace dlrun
