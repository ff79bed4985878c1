#pragma once
// Finds the presets of a spec while the spec is loaded. Problems are reported to the builder.

#include "launcher/spec/load.h"
#include "launcher/spec/spec_builder.h"

namespace dlrun {

/// Returns the preset of a job without components. Sets launch.preset if the spec names no preset,
/// and one task per node if the preset starts the ranks of a node itself.
[[nodiscard]] Preset choose_preset(SpecBuilder& builder, const LoadRequest& request);

/// Reads the preset of each component into loaded.component_presets. The job as a whole then runs
/// no program; its own preset has no effect.
void choose_component_presets(SpecBuilder& builder, const LoadRequest& request, LoadedSpec& loaded);

}  // namespace dlrun
