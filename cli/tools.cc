// built_tools() has a file of its own, so that the build compiles only this file again when the
// agent, the trainer or a module changes.
#include "cli/cli.h"
#include "tools_hash.h"

namespace dlrun {

ToolSet built_tools() {
  ToolSet tools;
  tools.hash = tools_hash::kAll;
  for (const auto& row : tools_hash::kRows) tools.files.push_back({row.path, row.sha256});
  return tools;
}

}  // namespace dlrun
