#include "launcher/view/run_list.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include <fnmatch.h>

#include "common/columns.h"
#include "common/text.h"
#include "launcher/runs/existing_folders.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/status.h"
#include "launcher/runs/summary_cache.h"
#include "launcher/spec/value_syntax.h"
#include "launcher/view/run_text.h"
#include "launcher/view/status_json.h"

namespace dlrun {
namespace {

std::optional<struct stat> stat_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? std::optional(info) : std::nullopt;
}

/// The filters of a request, parsed.
struct Filters {
  std::string name;
  std::vector<RunState> states;
  std::string after, before;  ///< limits for IndexEntry::created; empty: none

  [[nodiscard]] bool accepts(const IndexEntry& run) const {
    return (name.empty() || ::fnmatch(name.c_str(), run.name.c_str(), 0) == 0) &&
           (after.empty() || run.created >= after) && (before.empty() || run.created < before);
  }
  [[nodiscard]] bool accepts_state(RunState state) const {
    return states.empty() || std::find(states.begin(), states.end(), state) != states.end();
  }
};

/// Returns the states in the text. Fails with kUsage for an unknown one.
Result<std::vector<RunState>> parse_states(const std::string& text) {
  std::vector<RunState> states;
  if (text.empty()) return states;
  for (const std::string_view part : split(text, ',')) {
    const std::string_view name = trim(part);
    const auto state = run_state_of(name);
    if (!state) {
      std::vector<std::string> words;
      for (const RunState one : kRunStates) words.emplace_back(word(one));
      return fail(Errc::kUsage, "--state: '{}' is not a state of a run; the states are {}",
                  printable(name), join(words, ", "));
    }
    states.push_back(*state);
  }
  return states;
}

/// Returns the time that is `age` ago, as IndexEntry::created; "" without an age.
Result<std::string> time_ago(const char* option, const std::string& age) {
  if (age.empty()) return std::string();
  const auto seconds = parse_age(age);
  if (!seconds) return within(option, seconds.error());
  return utc_timestamp(std::chrono::system_clock::now() - std::chrono::seconds(*seconds));
}

Result<Filters> parse_filters(const ListRequest& request) {
  Filters filters;
  filters.name = request.name;
  DLRUN_TRY_ASSIGN(filters.states, parse_states(request.states));
  DLRUN_TRY_ASSIGN(filters.after, time_ago("--newer-than", request.newer_than));
  DLRUN_TRY_ASSIGN(filters.before, time_ago("--older-than", request.older_than));
  return filters;
}

/// A run that is listed, and its row.
struct Listed {
  const IndexEntry* entry = nullptr;
  std::optional<struct stat> events_stat;  ///< of events.jsonl; nullopt: there is none, or not read
  std::optional<SummaryCache::Row> row;    ///< a cached row; add_status() sets it if none is cached
  bool may_be_outdated = false;            ///< as in RunStatus
};

/// Makes one list. The arguments and the entries must outlive this object.
class ListMaker {
 public:
  ListMaker(const ListRequest& request, const Filters& filters, SummaryCache& summary_cache)
      : request_(request), filters_(filters), summary_cache_(summary_cache) {}

  void choose(const std::vector<IndexEntry>& own, const std::vector<IndexEntry>& foreign);
  void inspect(RunInspector& inspector, RunList& list);

 private:
  /// Returns true if choose() has chosen enough runs. With a filter of states it chooses all runs,
  /// because their states are not known yet; is_list_full() limits their number later.
  [[nodiscard]] bool are_enough_chosen() const {
    return request_.limit > 0 && filters_.states.empty() && listed_.size() >= request_.limit;
  }
  [[nodiscard]] bool is_list_full(std::size_t shown_count) const {
    return request_.limit > 0 && shown_count >= request_.limit;
  }
  void add_status(Listed& listed, const RunStatus& status, RunList& list);

  const ListRequest& request_;
  const Filters& filters_;
  SummaryCache& summary_cache_;
  std::vector<Listed> listed_;
  std::size_t hidden_count_ = 0;
};

/// Chooses the runs to list, and takes the cached rows of runs that have ended. A run with a cached
/// row needs no query, and its files are not read. JSON needs the files, so it uses no cached row.
void ListMaker::choose(const std::vector<IndexEntry>& own, const std::vector<IndexEntry>& foreign) {
  const uid_t user = ::geteuid();
  ExistingFolders folders;
  for (const IndexEntry& entry : own) {
    if (!filters_.accepts(entry)) continue;
    std::error_code error;
    if (!request_.folder.empty() &&
        std::filesystem::weakly_canonical(entry.path.parent_path(), error) != request_.folder)
      continue;
    if (are_enough_chosen()) {
      if (folders.has(entry.path)) ++hidden_count_;
      continue;
    }
    const auto events_stat = stat_of(entry.path.native() + "/events.jsonl");
    if (!events_stat && !stat_of(entry.path.native())) continue;  // the run's directory was deleted
    // If the user owns events.jsonl and the run's row is cached, skip the check of the run's path,
    // which takes time.
    std::optional<SummaryCache::Row> row;
    if (events_stat && events_stat->st_uid == user && !request_.wants_json)
      row = summary_cache_.find(entry, *events_stat);
    // Skip a run whose path leads to another user's folder.
    if (!row && foreign_owner_of_path(entry.path)) continue;
    listed_.push_back({&entry, events_stat, std::move(row)});
  }
  for (const IndexEntry& entry : foreign) {
    if (!filters_.accepts(entry)) continue;
    if (are_enough_chosen()) {
      ++hidden_count_;
    } else {
      listed_.push_back({&entry, std::nullopt, std::nullopt});
    }
  }
}

/// Makes the row of an inspected run, and caches the row if the run's own record has the end of the
/// run. For JSON, adds the status to the list instead.
void ListMaker::add_status(Listed& listed, const RunStatus& status, RunList& list) {
  if (is_unreachable(status)) list.unreachable_reason = status.facts.why_unreachable;
  if (request_.wants_json) {
    if (!filters_.accepts_state(status.state)) return;
    if (is_list_full(list.json.size())) {
      ++hidden_count_;
    } else {
      list.json.push_back(status_json(*listed.entry, status));
    }
    return;
  }
  listed.may_be_outdated = status.may_be_outdated;
  listed.row = SummaryCache::Row{status.job.cluster == kLocalCluster ? "here" : status.job.id,
                                 status.state, shortened(summary_text(status), kSummaryColumns)};
  const bool is_settled = !status.facts.foreign && status.facts.record.ended && is_over(status);
  if (listed.events_stat && is_settled)
    summary_cache_.add(*listed.entry, *listed.events_stat, *listed.row);
}

/// Inspects, with one query, all runs that have no cached row, and fills the list.
void ListMaker::inspect(RunInspector& inspector, RunList& list) {
  std::vector<std::filesystem::path> paths;
  for (const Listed& one : listed_) {
    if (!one.row) paths.push_back(one.entry->path);
  }
  const auto states = inspector.inspect_all(paths);
  auto state = states.begin();
  for (Listed& one : listed_) {
    if (one.events_stat) list.runs_with_events.push_back(*one.entry);
    if (!one.row) {
      const auto& found = *state++;
      if (found) {
        add_status(one, *found, list);
      } else {
        list.unreadable.push_back(fmt::format("{}: {}", one.entry->id, found.error().message));
      }
    }
    if (!one.row || !filters_.accepts_state(one.row->state)) continue;
    if (is_list_full(list.rows.size())) {
      ++hidden_count_;
    } else {
      list.rows.push_back({one.entry->id, one.row->job,
                           std::string(word(one.row->state)) + (one.may_be_outdated ? "?" : ""),
                           age(one.entry->created), one.row->summary});
    }
  }
  list.hidden_count = hidden_count_;
  summary_cache_.save();
}

}  // namespace

Result<RunList> list_runs(const Env& env, const KnownServers& servers, const ListRequest& request) {
  DLRUN_TRY_ASSIGN(const auto filters, parse_filters(request));
  DLRUN_TRY_ASSIGN(const auto index, RunIndex::of_user(env));
  RunList list;
  std::vector<IndexEntry> foreign;
  ListRequest wanted = request;
  if (!request.folder.empty()) {
    DLRUN_TRY_ASSIGN(auto additions, index.add_missing_runs(request.folder));
    foreign = std::move(additions.foreign);
    list.added_count = additions.added_count;
    wanted.folder = std::filesystem::weakly_canonical(request.folder);
  }
  DLRUN_TRY_ASSIGN(auto listing, index.list());
  list.unreadable = std::move(listing.damaged);
  SummaryCache summary_cache = SummaryCache::in(index);
  ListMaker maker(wanted, filters, summary_cache);
  maker.choose(listing.entries, foreign);
  RunInspector inspector(env, servers);
  maker.inspect(inspector, list);
  return list;
}

}  // namespace dlrun
