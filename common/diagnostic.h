#pragma once
// A problem with its place in a file, a command line or the environment, for the author of a spec.

#include <string>

namespace dlrun {

/// The place that a value comes from.
struct Origin {
  enum class Kind { kDefault, kFile, kSite, kPreset, kEnv, kSet };
  Kind kind = Kind::kDefault;
  /// kFile, kSite, kPreset: the file as it was named; kEnv: the variable; kSet: the argument.
  std::string source;
  int line = 0;    ///< from 1; 0: the source has no lines
  int column = 0;  ///< from 1
};

/// An error or a warning about a spec.
struct Diagnostic {
  enum class Severity { kError, kWarning };
  Severity severity = Severity::kError;
  Origin where;
  std::string message;
  std::string line_text;  ///< the line of the source; empty if there is none
};

}  // namespace dlrun
