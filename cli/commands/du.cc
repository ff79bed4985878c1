// `dlrun du`: shows the space that runs take on the disk.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/run_argument.h"
#include "cli/terminal/print.h"
#include "common/text.h"
#include "common/units.h"
#include "launcher/cleanup/disk_usage.h"
#include "launcher/view/run_text.h"

namespace dlrun {
namespace {

struct DuOptions {
  std::vector<std::string> runs;
  bool json = false;
};

std::string size_cell(std::uint64_t bytes) {
  return bytes_text(static_cast<double>(bytes));
}

void print_sizes(const Cli& cli, const std::vector<MeasuredRun>& measured) {
  std::vector<std::vector<std::string>> rows = {{"RUN", "AGE", "FILES", "CHECKPOINTS", "SIZE"}};
  TreeSize sum;
  for (const MeasuredRun& one : measured) {
    rows.push_back({one.run.id, age(one.run.created), std::to_string(one.size.files),
                    checkpoints_text(one.size), size_cell(one.size.bytes)});
    sum += one.size;
  }
  if (measured.size() > 1)
    rows.push_back(
        {"all", "", std::to_string(sum.files), checkpoints_text(sum), size_cell(sum.bytes)});
  print(cli, table(rows));
  if (sum.unread > 0)
    print_warning(cli, fmt::format("{} folder{} not counted: unreadable, or on another file system",
                                   sum.unread, sum.unread == 1 ? " is" : "s are"));
}

/// Prints a note about each run whose path is a symbolic link, because measure_runs() follows no
/// link. Returns true if there is such a run.
bool note_links(const Cli& cli, const std::vector<IndexEntry>& runs) {
  bool has_link = false;
  for (const IndexEntry& run : runs) {
    std::error_code error;
    if (!std::filesystem::is_symlink(run.path, error)) continue;
    has_link = true;
    print_note(cli, fmt::format("{}: is a symbolic link, and is not counted",
                                printable(run.path.string())));
  }
  return has_link;
}

Result<int> show_sizes(Cli& cli, const DuOptions& options) {
  DLRUN_TRY_ASSIGN(const auto runs,
                   options.runs.empty() ? all_own_runs(cli.env) : select_runs(cli, options.runs));
  const auto measured = measure_runs(runs);
  const bool has_links = note_links(cli, runs);
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const MeasuredRun& one : measured) json.push_back(disk_usage_json(one));
    print_json(json);
  } else if (measured.empty()) {
    if (!has_links)
      print_note(cli, options.runs.empty()
                          ? "no runs"
                          : "the directories of these runs are gone, or cannot be opened");
  } else {
    print_sizes(cli, measured);
  }
  return kExitOk;
}

}  // namespace

void add_du(CLI::App& root, Action& action) {
  auto options = std::make_shared<DuOptions>();
  Subcommand command(root, "du",
                     "Show the space that runs take on the disk, the largest first (default: all "
                     "your runs)");
  command.option("RUN", options->runs, kRunHelp);
  command.flag("--json", options->json, "Print a JSON array");
  command.calls(show_sizes, options, action);
}

}  // namespace dlrun
