#pragma once
// The components of a job as specs of their own: the values that each component gives or inherits.

#include <cstddef>
#include <vector>

#include "launcher/spec/load.h"

namespace dlrun {

/// Returns a component as a spec with a single program: the values of the whole spec, replaced by
/// those that the component gives. The result has no text, so that source_line_of() finds no line
/// in it. loaded.component_presets must have the component's preset.
[[nodiscard]] LoadedSpec loaded_spec_of_component(const LoadedSpec& loaded, std::size_t index);

/// Returns all components as specs, in the order of the whole spec; none if it has no components.
[[nodiscard]] std::vector<LoadedSpec> loaded_specs_of_components(const LoadedSpec& loaded);

/// Returns the spec with which loaded_spec_of_component() begins: without the values that the
/// component's preset decides. The component gets folders of its own for outputs, and a container
/// name of its own. A service has one task per node by default. Without GPUs, the component has no
/// checks of GPUs.
[[nodiscard]] JobSpec spec_of_component(const JobSpec& whole, const ComponentSpec& component);

/// Returns true if the job, or one of its components, runs the bundled trainer.
[[nodiscard]] bool runs_trainer(const LoadedSpec& loaded);

}  // namespace dlrun
