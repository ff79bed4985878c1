#pragma once
// Makes specs from job scripts, for the tests of launcher/import.

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "launcher/import/script_import.h"
#include "launcher/spec/load.h"

namespace dlrun {

/// The start of most scripts.
inline constexpr const char* kHead = "#!/bin/bash\n#SBATCH --time=10\n";

/// Returns the request to import a script with the name job.sh into the spec /exp/exp.yaml.
inline ImportRequest request_of(const std::string& script) {
  ImportRequest import;
  import.script_name = "job.sh";
  import.script = script;
  import.load.file = "exp.yaml";
  import.load.current_dir = "/exp";
  import.load.env.set("HOME", "/home/u");
  return import;
}

/// Returns the spec and the remarks as one text; the message and the diagnostics if the import
/// fails.
inline std::string spec_and_remarks(const std::string& script) {
  const auto made = import_script(request_of(script));
  if (!made) return made.error().message + format_diagnostics(made.error().diagnostics.all());
  return made->spec + "\n" + format_diagnostics(made->remarks);
}

/// Returns the loaded spec that is made from a script. Fails the test if the import or the load
/// fails.
inline JobSpec spec_from(const std::string& script) {
  const auto made = import_script(request_of(script));
  if (!made) FAIL(made.error().message << format_diagnostics(made.error().diagnostics.all()));
  LoadRequest request = request_of(script).load;
  request.text = made->spec;
  auto loaded = load_spec(request);
  if (!loaded) FAIL(format_diagnostics(loaded.error()) << made->spec);
  return std::move(loaded->spec);
}

}  // namespace dlrun
