#pragma once
// The text of a diagnostic in the form that compilers use: file:line:column, the line, a caret.

#include <span>
#include <string>

#include "common/diagnostic.h"

namespace dlrun {

/// Formats one diagnostic; the text ends with a newline:
///   exp.yaml:12:3: error: unknown key 'gpus_per_nod'; did you mean 'gpus_per_node'?
///      12 |   gpus_per_nod: 8
///         |   ^
/// Escapes control characters, shortens long lines to the part around the caret, and hides lines
/// with a password.
[[nodiscard]] std::string format_diagnostic(const Diagnostic& diagnostic);

/// Formats all diagnostics in the given order.
[[nodiscard]] std::string format_diagnostics(std::span<const Diagnostic> diagnostics);

}  // namespace dlrun
