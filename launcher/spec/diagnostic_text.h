#pragma once
// Formats origins, and diagnostics in the form that compilers use: file:line:column, the line, a
// caret.

#include <span>
#include <string>

#include "common/diagnostic.h"

namespace dlrun {

/// Returns the origin as text: "exp.yaml:12:3", "--set resources.nodes=4", "env SBATCH_ACCOUNT",
/// "site juwels (sites/juwels.yaml:12)", "default".
[[nodiscard]] std::string describe(const Origin& origin);

/// Formats one diagnostic; the text ends with a newline:
///   exp.yaml:12:3: error: unknown key 'gpus_per_nod'; did you mean 'gpus_per_node'?
///      12 |   gpus_per_nod: 8
///         |   ^
/// Escapes control characters and shortens long lines to the part around the caret. Hides lines
/// that may hold a secret. Masks tokens, passwords and the addresses of webhooks in the message.
[[nodiscard]] std::string format_diagnostic(const Diagnostic& diagnostic);

/// Formats all diagnostics in the given order.
[[nodiscard]] std::string format_diagnostics(std::span<const Diagnostic> diagnostics);

}  // namespace dlrun
