#pragma once
// Makes a spec from a job script that somebody wrote for sbatch (`dlrun init --from`). Reads the
// script as text and runs nothing of it.

#include <string>
#include <vector>

#include "common/result.h"
#include "launcher/spec/load.h"

namespace dlrun {

struct ImportRequest {
  /// The script's name as the user gave it, and its text.
  std::string script_name, script;
  /// The site to write into the spec; empty: none.
  std::string site;
  /// The program and its arguments. Empty: those of the script.
  std::vector<std::string> command;
  /// The request with which the new spec is read: its file, the environment and the folders of
  /// sites. import_script() sets its text.
  LoadRequest load;
};

struct ImportedSpec {
  std::string spec;  ///< the text of the spec; it loads without errors
  /// A warning for each line or block of the script that did not become a key, that became a key in
  /// another form, or that has a secret.
  std::vector<Diagnostic> remarks;
  std::vector<Diagnostic> warnings;  ///< the warnings of the new spec
};

/// Makes the spec. A line becomes a key only if its meaning is certain. Fails with kInvalid
/// - if the script does not begin with "#!", has control characters, is a heterogeneous job or was
///   rendered by dlrun;
/// - if `command` is empty, and no line or several lines start a program;
/// - if `command` is empty, and the meaning of the line that starts the program is not certain;
/// - if the new spec has an error that does not disappear when the keys with errors are removed.
///   launch.command is never removed.
[[nodiscard]] Result<ImportedSpec> import_script(const ImportRequest& import);

}  // namespace dlrun
