#include "cli/select.h"

#include "launcher/runs/ownership.h"
#include "launcher/runs/resolve.h"

namespace dlrun {

Result<IndexEntry> select_run(const Cli& cli, const std::string& text) {
  const auto index = RunIndex::of_user(cli.env);
  if (!index) {  // a path needs no index
    const auto run = run_at(text, cli.current_dir);
    const bool is_path = text.find('/') != std::string::npos;
    if (run && (is_path || !foreign_owner(run->path))) return *run;
    return tl::unexpected(index.error());
  }
  return resolve_run(text, *index, cli.current_dir);
}

}  // namespace dlrun
