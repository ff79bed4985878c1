// dlrun ls: the runs, newest first. All of them share one question to Slurm.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/output.h"
#include "cli/report.h"
#include "common/text.h"
#include "launcher/runs/index.h"
#include "launcher/runs/json_read.h"
#include "launcher/runs/status.h"
#include "launcher/runs/sweep.h"

namespace dlrun {
namespace {

constexpr std::size_t kShownProgress = 72;  ///< columns; --json and `status` have it whole

/// What of a result fits, whole entries: first what runs are judged by; the hash of what was trained is for `status`.
std::string short_result(const std::string& result) {
  auto json = json_read::object_of(result);
  if (!json) return {};
  std::string text;
  const auto add = [&](const std::string& name, const nlohmann::ordered_json& value) {
    const std::string part = result_text(json_read::dump(nlohmann::ordered_json{{name, value}}));
    if (text.empty()) {
      text = part;
    } else if (text.size() + 2 + part.size() <= kShownProgress) {
      text += ", " + part;
    }
  };
  for (const std::string_view name : kJudgedBy) {
    if (const auto found = json->find(name); found != json->end()) add(std::string(name), *found);
  }
  for (const auto& [name, value] : json->items()) {
    const bool is_added = std::find(kJudgedBy.begin(), kJudgedBy.end(), name) != kJudgedBy.end();
    if (!is_added && name != "parameters") add(name, value);
  }
  return text;
}

/// Of a run that goes on how far it is, of one that came to its end its result, of one that failed who failed or why.
std::string what_matters(const RunStatus& status) {
  if (status.sweep) return describe(*status.sweep);
  const RunRecord& record = status.facts.record;
  if (status.state == RunState::kCompleted) {
    if (auto result = short_result(record.result); !result.empty()) return result;
  } else if (is_final(status.state)) {
    return record.first_failed ? describe(*record.first_failed) : printable(status.detail);
  }
  const std::string attempt = record.restarts.empty() ? "" : fmt::format("attempt {}  ", record.attempt);
  return attempt + (record.progress ? progress_text(*record.progress) : "");
}

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
    if (!options.all && options.limit > 0 && entries.size() >= options.limit) {
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
    rows.push_back({entries[i].id, status.job.cluster == kLocalCluster ? "here" : status.job.id,
                    std::string(word(status.state)) + (status.is_last_known ? "?" : ""), age(entries[i].created),
                    shortened(what_matters(status), kShownProgress)});
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
  command.option("-n,--limit", options->limit, "How many (20); 0: all of them").type_name("N").non_negative();
  command.option("--runs", options->runs, "Those in this directory; adds to the index what it lacks").type_name("DIR");
  command.flag("--json", options->json, "Print a JSON array");
  command.on_call([options, &action] { action = [options](Cli& cli) { return list(cli, *options); }; });
}

}  // namespace dlrun
