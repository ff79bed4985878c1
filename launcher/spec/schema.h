#pragma once
// The key table as JSON Schema (draft 7, which editors' YAML servers know best).

#include <string>

namespace dlrun {

/// The schema of exp.yaml, ended by a newline. It takes every form of a value that load_spec takes,
/// and refuses unknown keys, wrong types and numbers out of range. What needs more than one value,
/// the site or the machine is load_spec's. Keys whose part of dlrun is not built are absent, so an
/// editor refuses them as load_spec does.
[[nodiscard]] std::string spec_schema();

}  // namespace dlrun
