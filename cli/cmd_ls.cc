// dlrun ls: the runs, newest first. All of them share one question to Slurm.

#include <cstdio>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/output.h"
#include "cli/report.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {
namespace {

struct Options {
  bool json = false, all = false;
  std::size_t limit = 20;
  std::string runs;
};

Result<int> list(Cli& cli, const Options& options) {
  const auto index = RunIndex::of_user(cli.env);
  if (!index) return tl::unexpected(index.error());
  if (!options.runs.empty()) {
    const auto added = index->rebuild(cli.current_dir / options.runs);
    if (!added) return tl::unexpected(added.error());
    if (*added > 0) print_note(cli, fmt::format("{} runs of {} were added to the index", *added, options.runs));
  }
  const auto listing = index->list();
  if (!listing) return tl::unexpected(listing.error());
  for (const auto& damaged : listing->damaged) print_warning(cli, damaged);

  const auto wanted_folder = options.runs.empty() ? std::filesystem::path()
                                                  : std::filesystem::weakly_canonical(cli.current_dir / options.runs);
  std::vector<IndexEntry> entries;
  std::vector<std::filesystem::path> paths;
  std::size_t hidden = 0;
  for (const auto& entry : listing->entries) {
    std::error_code error;
    if (!std::filesystem::exists(entry.path, error)) continue;  // its directory was deleted: nothing is left to show
    if (!wanted_folder.empty() && std::filesystem::weakly_canonical(entry.path.parent_path(), error) != wanted_folder)
      continue;
    if (!options.all && entries.size() >= options.limit) {
      ++hidden;
      continue;
    }
    entries.push_back(entry);
    paths.push_back(entry.path);
  }

  RunInspector inspector(cli.env);
  const auto states = inspector.inspect_all(paths);
  std::string unreachable;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows = {{"RUN", "JOB", "STATE", "AGE", "PROGRESS"}};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!states[i]) {
      print_warning(cli, fmt::format("{}: {}", entries[i].id, states[i].error().message));
      continue;
    }
    const RunStatus& status = *states[i];
    if (status.is_last_known) unreachable = status.facts.unreachable;
    if (options.json) {
      json.push_back(status_json(entries[i], status));
      continue;
    }
    std::string what = status.facts.record.progress ? progress_text(*status.facts.record.progress) : "";
    if (status.facts.record.first_failed && status.state != RunState::kCompleted)
      what = describe(*status.facts.record.first_failed);
    rows.push_back({entries[i].id, status.job.cluster == kLocalCluster ? "here" : status.job.id,
                    std::string(word(status.state)) + (status.is_last_known ? "?" : ""), age(entries[i].created),
                    what});
  }
  if (options.json) {
    print_json(json);
  } else if (rows.size() == 1) {
    print_note(cli, "no runs yet");
  } else {
    fmt::print("{}", table(rows, cli.colour_out));
  }
  if (hidden > 0) print_note(cli, fmt::format("{} older runs are not shown; --all shows them", hidden));
  if (!unreachable.empty()) {
    print_error(cli, fmt::format("states with '?' are the last known: {}", unreachable));
    return kExitUnavailable;
  }
  return kExitOk;
}

}  // namespace

void add_ls(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(root, "ls", "List your runs, newest first");
  command.flag("-a,--all", options->all, "All of them, not only the newest");
  command.option("-n,--limit", options->limit, "How many (20)").type_name("N");
  command.option("--runs", options->runs, "Those in this directory; adds to the index what it lacks").type_name("DIR");
  command.flag("--json", options->json, "Print a JSON array");
  command.on_call([options, &action] { action = [options](Cli& cli) { return list(cli, *options); }; });
}

}  // namespace dlrun
