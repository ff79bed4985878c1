#include "launcher/view/run_list.h"

#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "common/columns.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/status.h"
#include "launcher/runs/summaries.h"
#include "launcher/view/run_text.h"
#include "launcher/view/status_json.h"

namespace dlrun {
namespace {

std::optional<struct stat> stat_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? std::optional(info) : std::nullopt;
}

/// A run that is listed, and its cached row if it has one.
struct Listed {
  const IndexEntry* entry = nullptr;
  std::optional<struct stat> events;
  std::optional<RunSummaries::Row> row;
};

/// Makes one list. The arguments and the entries must outlive it.
class ListMaker {
 public:
  ListMaker(const ListRequest& request, RunSummaries& summaries)
      : request_(request), summaries_(summaries) {}

  void choose(const std::vector<IndexEntry>& own, const std::vector<IndexEntry>& foreign);
  void inspect(RunInspector& inspector, RunList& list);

 private:
  [[nodiscard]] bool is_full() const {
    return request_.limit > 0 && listed_.size() >= request_.limit;
  }
  void add_state(Listed& listed, const RunStatus& status, RunList& list);

  const ListRequest& request_;
  RunSummaries& summaries_;
  std::vector<Listed> listed_;
  std::size_t hidden_ = 0;
};

/// Chooses the runs to list, and takes the cached rows of runs that have ended. A run with a cached
/// row needs no query, and its files are not read. JSON needs the files, so it uses no cached row.
void ListMaker::choose(const std::vector<IndexEntry>& own, const std::vector<IndexEntry>& foreign) {
  const uid_t caller = ::geteuid();
  for (const IndexEntry& entry : own) {
    const auto events = stat_of(entry.path.native() + "/events.jsonl");
    if (!events && !stat_of(entry.path.native())) continue;  // the run's directory was deleted
    std::error_code error;
    if (!request_.folder.empty() &&
        std::filesystem::weakly_canonical(entry.path.parent_path(), error) != request_.folder)
      continue;
    if (is_full()) {
      ++hidden_;
      continue;
    }
    // If the caller owns the file and its row is cached, skip the check of the folder, which takes
    // time.
    std::optional<RunSummaries::Row> row;
    if (events && events->st_uid == caller && !request_.wants_json)
      row = summaries_.find(entry, *events);
    if (!row && foreign_folder(entry.path)) continue;  // another user's folder is in its place
    listed_.push_back({&entry, events, std::move(row)});
  }
  for (const IndexEntry& entry : foreign) {
    if (is_full()) {
      ++hidden_;
    } else {
      listed_.push_back({&entry, std::nullopt, std::nullopt});
    }
  }
}

void ListMaker::add_state(Listed& listed, const RunStatus& status, RunList& list) {
  if (is_unreachable(status)) list.unreachable = status.facts.unreachable;
  if (request_.wants_json) {
    list.json.push_back(status_json(*listed.entry, status));
    return;
  }
  listed.row =
      RunSummaries::Row{status.job.cluster == kLocalCluster ? "here" : status.job.id,
                        std::string(word(status.state)) + (status.is_last_known ? "?" : ""),
                        shortened(summary_text(status), kSummaryColumns)};
  const bool is_settled = !status.facts.foreign && status.facts.record.ended && is_over(status);
  if (listed.events && is_settled) summaries_.add(*listed.entry, *listed.events, *listed.row);
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
    if (one.events) list.runs.push_back(*one.entry);
    if (!one.row) {
      const auto& found = *state++;
      if (found) {
        add_state(one, *found, list);
      } else {
        list.unreadable.push_back(fmt::format("{}: {}", one.entry->id, found.error().message));
      }
    }
    if (one.row)
      list.rows.push_back(
          {one.entry->id, one.row->job, one.row->state, age(one.entry->created), one.row->summary});
  }
  list.hidden = hidden_;
  summaries_.save();
}

}  // namespace

Result<RunList> list_runs(const Env& env, const KnownServers& servers, const ListRequest& request) {
  DLRUN_TRY_ASSIGN(const auto index, RunIndex::of_user(env));
  RunList list;
  std::vector<IndexEntry> foreign;
  ListRequest wanted = request;
  if (!request.folder.empty()) {
    DLRUN_TRY_ASSIGN(auto rebuilt, index.rebuild(request.folder));
    foreign = std::move(rebuilt.foreign);
    list.added = rebuilt.added;
    wanted.folder = std::filesystem::weakly_canonical(request.folder);
  }
  DLRUN_TRY_ASSIGN(auto listing, index.list());
  list.unreadable = std::move(listing.damaged);
  RunSummaries summaries = RunSummaries::beside(index);
  ListMaker maker(wanted, summaries);
  maker.choose(listing.entries, foreign);
  RunInspector inspector(env, servers);
  maker.inspect(inspector, list);
  return list;
}

}  // namespace dlrun
