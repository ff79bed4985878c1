#pragma once
// How a framework wants to be started: templates/presets/*.yaml, data that a user can override.

#include <string>
#include <vector>

#include "launcher/spec/spec.h"

namespace dlrun {

struct Preset {
  std::string name;
  std::string source;  ///< file, or "built-in"
  std::string help;
  bool trusted = false;     ///< the program is dlrun's own and gets the store
  bool is_trainer = false;  ///< the program comes from `train`, not from launch.command
  bool wants_mpi = false;   ///< launch.mpi defaults to the site's
  NamedValues env;          ///< NAME to template, set by the rank agent; see runtime/ENVIRONMENT.md
  NamedValues vars;         ///< NAME to value, exported by the script unless environment.vars has it
};

}  // namespace dlrun
