#pragma once
// What is wrong with a spec, told like a compiler: file:line:col, the line, a caret.

#include <span>
#include <string>

#include "launcher/spec/spec.h"

namespace dlrun {

struct Diagnostic {
  enum class Severity { kError, kWarning };
  Severity severity = Severity::kError;
  Origin where;
  std::string message;
  std::string line_text;  ///< the source's line, empty where there is none
};

/// One diagnostic, ended by a newline:
///   exp.yaml:12:3: error: unknown key 'gpus_per_nod'; did you mean 'gpus_per_node'?
///      12 |   gpus_per_nod: 8
///         |   ^
/// Control characters in it are escaped; long lines are cut around the caret; one with a password
/// is not shown.
[[nodiscard]] std::string format_diagnostic(const Diagnostic& diagnostic);

/// All of them, in the order given.
[[nodiscard]] std::string format_diagnostics(std::span<const Diagnostic> diagnostics);

}  // namespace dlrun
