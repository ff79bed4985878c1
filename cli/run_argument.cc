#include "cli/run_argument.h"

namespace dlrun {

Result<IndexEntry> select_run(const Cli& cli, const std::string& text, IdStart accepted) {
  return find_run(cli.env, cli.current_dir, text, accepted);
}

Result<std::vector<IndexEntry>> select_runs(const Cli& cli, const std::vector<std::string>& texts) {
  std::vector<IndexEntry> runs;
  for (const std::string& text : texts) {
    DLRUN_TRY_ASSIGN(auto run, select_run(cli, text));
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<std::string> runs_or_newest(const std::vector<std::string>& texts) {
  return texts.empty() ? std::vector<std::string>{kNewestRun} : texts;
}

}  // namespace dlrun
