#pragma once
// The key table as JSON Schema (draft 7, which the YAML language servers of editors support
// best).

#include <string>

namespace dlrun {

/// Returns the schema of a spec; it ends with a newline. The schema accepts every form of a value
/// that load_spec accepts, and refuses unknown keys, wrong types and numbers out of range.
/// load_spec also makes the checks that need several values, the site or the machine. Keys that are
/// not supported yet are absent, so that an editor refuses them as load_spec does.
[[nodiscard]] std::string spec_schema();

}  // namespace dlrun
