#pragma once
// Finds the presets of a spec while the spec is loaded. Problems are reported to the builder.

#include "launcher/spec/load.h"
#include "launcher/spec/spec_builder.h"

namespace dlrun {

/// Returns the preset of a job without components. Sets launch.preset if the spec gives no preset.
/// Sets resources.tasks_per_node to 1 if the preset starts the ranks of a node itself and the spec
/// gives no number of tasks.
[[nodiscard]] Preset choose_preset(SpecBuilder& builder, const LoadRequest& request);

/// Reads the preset of each component into loaded.component_presets. loaded.preset becomes `plain`
/// and has no effect, because only the components run programs.
void choose_component_presets(SpecBuilder& builder, const LoadRequest& request, LoadedSpec& loaded);

}  // namespace dlrun
