// Alone in a file: it is the only one that is compiled again when the agent or the trainer changes.
#include "cli/cli.h"
#include "tools_hash.h"

namespace dlrun {

ToolHashes built_tools() {
  return {tools_hash::kBoth, tools_hash::kAgent, tools_hash::kTrainer};
}

}  // namespace dlrun
