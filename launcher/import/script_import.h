#pragma once
// Makes a spec from a job script that somebody wrote for sbatch (`dlrun init --from`). Reads the
// script as text and runs nothing of it.

#include <string>
#include <vector>

#include "common/result.h"
#include "launcher/spec/load.h"

namespace dlrun {

struct ScriptImport {
  /// The script's name as the user gave it, and its text.
  std::string name, script;
  /// The site to write into the spec; empty: the spec names no site.
  std::string site;
  /// The program and its arguments. Empty: those of the script.
  std::vector<std::string> command;
  /// The request with which the new spec is read: its file, the environment and the folders of
  /// sites. import_script() sets its text.
  LoadRequest load;
};

struct ImportedScript {
  std::string spec;  ///< the text of the spec; it loads without errors
  /// A warning with its place in the script for each line that the spec does not have.
  std::vector<Diagnostic> remarks;
  std::vector<Diagnostic> warnings;  ///< those of the new spec
};

/// Makes the spec. A line has a key only if its meaning is certain. Fails with kInvalid if no line,
/// or more than one line, starts the program of the job, and if the script is not one that sbatch
/// takes.
[[nodiscard]] Result<ImportedScript> import_script(const ScriptImport& import);

}  // namespace dlrun
