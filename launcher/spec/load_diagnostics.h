#pragma once
// The source lines and the order of the diagnostics that load_spec() returns.

#include <vector>

#include "launcher/spec/load.h"

namespace dlrun {

/// Sets the source line of the diagnostics that have only an origin. Hides each source line that
/// may hold a secret, also in diagnostics that have a line already.
void set_shown_lines(std::vector<Diagnostic>& diagnostics, const LoadedSpec& loaded);

/// Sorts by source: first the spec, then its bases, then all other sources by their kind. Within
/// these groups, sorts by line and column. Problems of a file that have no line come last, because
/// most of them are missing keys, and a misspelt key above may be the cause.
void sort_by_position(std::vector<Diagnostic>& diagnostics, const LoadedSpec& loaded);

}  // namespace dlrun
