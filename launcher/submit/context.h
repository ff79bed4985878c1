#pragma once
// The environment, the current folder and the arguments of the submitting process at its start.
// launcher/submit reads them only from here.

#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "launcher/runs/tools.h"

namespace dlrun {

struct Context {
  Env env;
  std::filesystem::path current_dir;
  /// The folder of the dlrun binary: bin/ of an installation or a build tree.
  std::filesystem::path bin_dir;
  std::vector<std::string> argv;  ///< the command line, for the run's record
  ToolSet tools;
};

}  // namespace dlrun
