#pragma once
// Lists runs, newest first. One query to Slurm serves all of them. Runs that have ended need no
// query, because their rows are cached (summary_cache.h).

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/result.h"
#include "launcher/runs/index.h"
#include "launcher/spec/known_servers.h"

namespace dlrun {

struct ListRequest {
  /// If not empty, lists only the runs in this folder, with runs of other users at the end. The
  /// user's runs in this folder that the index lacks are then added to the index.
  std::filesystem::path folder;
  std::size_t limit = 0;  ///< the most runs to list; 0: all
  /// Filters as the user wrote them; an empty filter accepts every run.
  std::string name;        ///< a name or a pattern: "mnist*"
  std::string states;      ///< states, separated by commas: "failed,timeout"
  std::string newer_than;  ///< an age: runs that were created less than this time ago
  std::string older_than;  ///< an age: runs that were created longer ago than this time
  /// Reads the files of every run and returns their whole state as JSON instead of rows.
  bool wants_json = false;
};

/// A run in a list; all fields are texts to display.
struct ListedRun {
  std::string id, job, state, age, summary;
};

struct RunList {
  std::vector<ListedRun> rows;  ///< the runs to show; empty with wants_json
  /// The user's runs in the requested folder that have an events.jsonl and fit the filters; the
  /// filter of states is ignored.
  std::vector<IndexEntry> runs_with_events;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();  ///< as in `dlrun status --json`
  std::size_t added_count = 0;   ///< runs that were added to the index
  std::size_t hidden_count = 0;  ///< runs beyond the limit
  /// Sentences about entries and runs that cannot be read.
  std::vector<std::string> unreadable;
  /// The reason why a controller did not answer; empty if all did. A state with '?' is the last
  /// known one.
  std::string unreachable_reason;
};

/// Returns the user's runs. Fails if the index or the folder cannot be read, and with kUsage if a
/// filter is wrong.
[[nodiscard]] Result<RunList> list_runs(const Env& env, const KnownServers& servers,
                                        const ListRequest& request);

}  // namespace dlrun
