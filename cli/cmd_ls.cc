// `dlrun ls`: lists the runs, newest first. One query to Slurm serves all of them.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/prepare.h"
#include "cli/report.h"
#include "cli/terminal/print.h"
#include "cli/terminal/words.h"
#include "common/text.h"
#include "launcher/runs/index.h"
#include "launcher/runs/json_read.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/status.h"
#include "launcher/runs/summaries.h"
#include "launcher/runs/sweep.h"

namespace dlrun {
namespace {

constexpr std::size_t kShownProgress = 72;  ///< columns; --json and `status` print everything

/// Returns as many whole entries of a result as fit. The entries by which runs are judged come
/// first. The hash of the parameters is left to `status`.
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

/// Returns the progress if the run is running, the result if it has completed, and the reason if it
/// has failed.
std::string what_matters(const RunStatus& status) {
  if (status.sweep) return describe(*status.sweep);
  const RunRecord& record = status.facts.record;
  if (status.state == RunState::kCompleted) {
    if (auto result = short_result(record.result); !result.empty()) return result;
  } else if (is_final(status.state)) {
    return record.first_failed ? describe(*record.first_failed) : printable(status.detail);
  }
  const std::string attempt =
      record.restarts.empty() ? "" : fmt::format("attempt {}  ", record.attempt);
  return attempt + (record.progress ? progress_text(*record.progress) : "");
}

std::optional<struct stat> stat_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? std::optional(info) : std::nullopt;
}

struct Options {
  bool json = false, all = false;
  std::size_t limit = 20;
  std::string runs;
};

std::string with_owner(const RunStatus& status) {
  if (!status.facts.foreign) return what_matters(status);
  if (status.is_last_known && !status.sweep) return describe(*status.facts.foreign);
  return fmt::format("of user {}: {}", printable(status.facts.foreign->name), what_matters(status));
}

Result<int> list(Cli& cli, const Options& options) {
  const auto index = RunIndex::of_user(cli.env);
  if (!index) return tl::unexpected(index.error());
  std::vector<IndexEntry> foreign;
  if (!options.runs.empty()) {
    auto rebuilt = index->rebuild(cli.current_dir / options.runs);
    if (!rebuilt) return tl::unexpected(rebuilt.error());
    foreign = std::move(rebuilt->foreign);
    if (rebuilt->added > 0)
      print_note(
          cli, fmt::format("{} runs of {} were added to the index", rebuilt->added, options.runs));
  }
  const auto listing = index->list();
  if (!listing) return tl::unexpected(listing.error());
  for (const auto& damaged : listing->damaged) print_warning(cli, damaged);

  const auto wanted_folder =
      options.runs.empty() ? std::filesystem::path()
                           : std::filesystem::weakly_canonical(cli.current_dir / options.runs);
  // A run that has ended needs no query. Its files are read only if all runs are asked for.
  RunSummaries summaries = RunSummaries::beside(*index);
  struct Shown {
    const IndexEntry* entry = nullptr;
    std::optional<struct stat> events;
    std::optional<RunSummaries::Row> row;
  };
  std::vector<Shown> shown;
  std::vector<std::filesystem::path> paths;
  std::size_t hidden = 0;
  const uid_t caller = ::geteuid();
  const auto is_full = [&] {
    return !options.all && options.limit > 0 && shown.size() >= options.limit;
  };
  for (const auto& entry : listing->entries) {
    const auto events = stat_of(entry.path.native() + "/events.jsonl");
    if (!events && !stat_of(entry.path.native())) continue;  // the run's directory was deleted
    std::error_code error;
    if (!wanted_folder.empty() &&
        std::filesystem::weakly_canonical(entry.path.parent_path(), error) != wanted_folder)
      continue;
    if (is_full()) {
      ++hidden;
      continue;
    }
    // A summary of the caller's own file needs no further look at the folder, which costs a lookup.
    std::optional<RunSummaries::Row> row;
    if (events && events->st_uid == caller && !options.json) row = summaries.find(entry, *events);
    if (!row && foreign_folder(entry.path)) continue;  // another user's folder is in its place
    const bool is_known = row.has_value();
    shown.push_back({&entry, events, std::move(row)});
    if (!is_known) paths.push_back(entry.path);
  }
  for (const auto& entry : foreign) {  // after the caller's own runs
    if (is_full()) {
      ++hidden;
      continue;
    }
    shown.push_back({&entry, std::nullopt, std::nullopt});
    paths.push_back(entry.path);
  }

  RunInspector inspector(cli.env, known_servers(cli));
  const auto states = inspector.inspect_all(paths);
  auto state = states.begin();
  std::string unreachable;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows = {{"RUN", "JOB", "STATE", "AGE", "PROGRESS"}};
  for (Shown& one : shown) {
    const IndexEntry& entry = *one.entry;
    if (!one.row) {
      const auto& found = *state++;
      if (!found) {
        print_warning(cli, fmt::format("{}: {}", entry.id, found.error().message));
        continue;
      }
      const RunStatus& status = *found;
      if (is_unreachable(status)) unreachable = status.facts.unreachable;
      if (options.json) {
        json.push_back(status_json(entry, status));
        continue;
      }
      one.row =
          RunSummaries::Row{status.job.cluster == kLocalCluster ? "here" : status.job.id,
                            std::string(word(status.state)) + (status.is_last_known ? "?" : ""),
                            shortened(with_owner(status), kShownProgress)};
      const bool is_settled = !status.facts.foreign && status.facts.record.ended && is_over(status);
      if (one.events && is_settled) summaries.keep(entry, *one.events, *one.row);
    }
    rows.push_back({entry.id, one.row->job, one.row->state, age(entry.created), one.row->matters});
  }
  summaries.save();
  if (options.json) {
    print_json(json);
  } else if (rows.size() == 1) {
    print_note(cli, "no runs yet");
  } else {
    print(cli, table(rows));
  }
  if (hidden > 0)
    print_note(cli, fmt::format("{} older runs are not shown; --all shows them", hidden));
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
  command.flag("-a,--all", options->all, "List all runs, not only the newest");
  command.option("-n,--limit", options->limit, "Number of runs to list (20); 0 lists all runs")
      .type_name("N")
      .non_negative();
  command
      .option("--runs", options->runs,
              "List the runs in this folder, and add missing ones to the index")
      .type_name("DIR");
  command.flag("--json", options->json, "Print a JSON array");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return list(cli, *options); }; });
}

}  // namespace dlrun
