#include "cli/run_argument.h"

#include "launcher/runs/resolve.h"

namespace dlrun {

Result<IndexEntry> select_run(const Cli& cli, const std::string& text) {
  return find_run(cli.env, cli.current_dir, text);
}

}  // namespace dlrun
