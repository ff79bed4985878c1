#include "launcher/runs/resolve.h"

#include <algorithm>
#include <vector>

#include "common/text.h"
#include "launcher/runs/deleted_runs.h"
#include "launcher/runs/follow_ups.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/run_name.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

/// Returns the sweep if the job is one of its arrays, or the point if the job is the task of that
/// point; nullopt if the sweep does not have the job.
std::optional<IndexEntry> sweep_or_point_with_job(const IndexEntry& entry, std::string_view job) {
  const auto sweep = is_sweep(entry.path) ? read_sweep(entry.path) : fail(Errc::kNotFound, "");
  if (!sweep) return std::nullopt;
  const auto array_job = job.substr(0, job.find('_'));
  for (std::size_t array = 0; array < sweep->array_count; ++array) {
    const auto submission = read_submission(array_path(entry.path, array));
    if (!submission || !*submission || (*submission)->job.id != array_job) continue;
    if (array_job == job) return entry;
    for (std::size_t i = 0; i < sweep->points.size(); ++i) {
      if (sweep->points[i].array != array ||
          std::to_string(sweep->task_of(sweep->points[i])) != job.substr(array_job.size() + 1))
        continue;
      if (auto point = point_entry(entry, i)) return *point;
    }
  }
  return std::nullopt;
}

/// Returns true if the journal has this job, or if the job is a later one of the run's chain.
/// Without a journal (a script submitted by hand), returns true if the claim has the job.
bool has_job(const std::filesystem::path& run, std::string_view job) {
  if (const auto submission = read_submission(run); submission && *submission) {
    if ((*submission)->job.id == job) return true;
    const auto follow_ups = read_follow_ups(run, **submission);
    return follow_ups && has_follow_up(*follow_ups, job);
  }
  const auto claim = read_claim(run);
  return claim && *claim && (*claim)->job.id == job;
}

/// Returns true if the run's folder still belongs to this user. Another user may have replaced the
/// folder since the run was indexed, and a name must not refer to that user's folder.
bool is_own(const IndexEntry& entry) {
  return !foreign_owner_of_path(entry.path);
}

/// Returns the first of this user's runs, sweeps and points that has the job. entries: newest
/// first, because Slurm may use a job id again.
std::optional<IndexEntry> run_with_job(const std::vector<IndexEntry>& entries,
                                       std::string_view job) {
  for (const auto& entry : entries) {
    auto found = sweep_or_point_with_job(entry, job);
    if (!found && has_job(entry.path, job)) found = entry;
    // is_own() comes last: it takes longer than the other checks, and there may be ten thousand
    // entries.
    if (found && is_own(entry)) return found;
  }
  return std::nullopt;
}

/// Returns true if `start` contains at least the name and the date of the run. `id` must start with
/// `start`.
bool has_name_and_date(std::string_view start, const std::string& id) {
  constexpr std::size_t kDateSize = std::string_view("-YYYYMMDD").size();
  return start.size() >= name_of_id(id).size() + kDateSize;
}

/// Returns this user's only run whose id starts with `text`. Fails with kUsage if there are
/// several, and with kNotFound if there is none.
Result<IndexEntry> run_with_id_prefix(const std::vector<IndexEntry>& entries, std::string_view text,
                                      IdStart accepted) {
  std::vector<const IndexEntry*> matches;
  const IndexEntry* match_by_short_start = nullptr;
  for (const auto& entry : entries) {
    if (text.empty() || !entry.id.starts_with(text) || !is_own(entry)) continue;
    if (accepted == IdStart::kWithDate && !has_name_and_date(text, entry.id)) {
      match_by_short_start = &entry;
    } else {
      matches.push_back(&entry);
    }
  }
  if (matches.size() == 1) return *matches.front();
  if (matches.size() > 1) {
    std::string list;
    constexpr std::size_t kShown = 8;
    for (std::size_t i = 0; i < matches.size() && i < kShown; ++i)
      list += fmt::format("\n  {}", matches[i]->id);
    if (matches.size() > kShown)
      list += fmt::format("\n  ... and {} more", matches.size() - kShown);
    return fail(Errc::kUsage, "the ids of {} runs start with '{}':{}", matches.size(),
                printable(text), list);
  }
  if (match_by_short_start != nullptr) {
    return fail(Errc::kNotFound,
                "no run '{0}': for this command, the start of an id needs at least the run's name "
                "and date, and '{0}' is a shorter start of the id {1}",
                printable(text), match_by_short_start->id);
  }
  std::vector<std::string_view> names;
  for (const auto& entry : entries) names.push_back(entry.name);
  const auto similar = nearest(text, names);
  return fail(
      Errc::kNotFound,
      "no run '{}': none of your runs has this name, id, start of an id, job id or directory. "
      "{}`dlrun ls` lists your runs",
      printable(text), similar ? fmt::format("Did you mean '{}'? ", printable(*similar)) : "");
}

/// Returns `found`. Fails with kNotFound if its name belonged to a deleted run that is newer: a
/// command would otherwise silently act on an older run.
Result<IndexEntry> refuse_older_run(const IndexEntry& found, const RunIndex& index) {
  const auto deleted = DeletedRuns::beside(index).newest_of_name(found.name);
  if (!deleted || deleted->run.created <= found.created) return found;
  return fail(
      Errc::kNotFound,
      "no run '{}': the newest run of this name is gone: {}. To use an older run of this name, "
      "give its id, {}",
      printable(found.name), describe(*deleted), found.id);
}

/// Fails with kNotFound if the text is the name, the id or the path of a deleted run.
Result<> check_not_deleted(std::string_view text, const RunIndex& index,
                           const std::filesystem::path& current_dir) {
  if (text.empty()) return {};
  const bool is_path = text.find('/') != std::string_view::npos;
  const auto path = (current_dir / std::filesystem::path(text)).lexically_normal();
  const auto deleted = DeletedRuns::beside(index).find(is_path ? path.native() : text);
  if (!deleted) return {};
  return fail(Errc::kNotFound, "no run '{}': {}", printable(text), describe(*deleted));
}

/// Returns the index's entry of the run; without an entry, returns the run. The index has no
/// entries for points of a sweep; a point gets the time at which its sweep was created. Does not
/// list the index, which may have ten thousand entries.
IndexEntry with_entry(IndexEntry run, const RunIndex& index) {
  const auto sweep = sweep_of_point(run.path);
  const auto& folder = sweep ? *sweep : run.path;
  const auto entry = index.find(folder.filename().string());
  if (!entry) return run;
  std::error_code ignored;
  // The entry's path may lead through a link, and then differs from `folder`.
  if (entry->path != folder &&
      !(sweep && std::filesystem::equivalent(entry->path, folder, ignored)))
    return run;
  if (!sweep) return *entry;
  run.created = entry->created;
  return run;
}

}  // namespace

std::optional<IndexEntry> run_of_directory(std::string_view text,
                                           const std::filesystem::path& current_dir) {
  const auto path = (current_dir / std::filesystem::path(text)).lexically_normal();
  if (text.empty() || !is_run_directory(path)) return std::nullopt;
  std::error_code error;
  auto folder = std::filesystem::canonical(path, error);
  if (error) return std::nullopt;
  // Keeps a path through another user's link, because that user decides to which run it leads.
  if (foreign_owner_of_path(path)) folder = path;
  if (const auto sweep = sweep_of_point(folder)) {
    const auto record = read_sweep(*sweep);
    for (std::size_t i = 0; record && i < record->points.size(); ++i) {
      if (point_path(*sweep, record->points[i]) == folder)
        return IndexEntry{fmt::format("{}/{}", printable(sweep->filename().string()), i),
                          name_of_run(*sweep), folder, ""};
    }
  }
  return IndexEntry{printable(folder.filename().string()), name_of_run(folder), folder, ""};
}

Result<IndexEntry> resolve_run(std::string_view text, const RunIndex& index,
                               const std::filesystem::path& current_dir, IdStart accepted) {
  if (text.find('/') != std::string_view::npos) {
    if (auto run = run_of_directory(text, current_dir))
      return foreign_owner(run->path) ? *run : with_entry(std::move(*run), index);
  }
  DLRUN_TRY_ASSIGN(auto listing, index.list());
  const auto& entries = listing.entries;
  const auto first = [&](auto&& fits) {
    return std::find_if(entries.begin(), entries.end(), fits);
  };

  if (text == "last") {
    std::error_code ignored;
    const auto newest = first(
        [&](const IndexEntry& e) { return std::filesystem::exists(e.path, ignored) && is_own(e); });
    if (newest != entries.end()) return *newest;
    if (entries.empty())
      return fail(Errc::kNotFound, "there is no run yet (index: {})",
                  printable(index.directory().string()));
    return fail(Errc::kNotFound,
                "the directories of all your runs are gone, or belong to another user (index: {})",
                printable(index.directory().string()));
  }
  if (const auto found = first([&](const IndexEntry& e) { return e.id == text && is_own(e); });
      found != entries.end())
    return *found;
  if (const auto found = first([&](const IndexEntry& e) { return e.name == text && is_own(e); });
      found != entries.end())
    return refuse_older_run(*found, index);
  const auto slash = text.rfind('/');
  const auto number =
      slash == std::string_view::npos ? std::nullopt : parse_int(text.substr(slash + 1));
  if (number && *number >= 0) {
    const auto sweep = resolve_run(text.substr(0, slash), index, current_dir, accepted);
    if (!sweep) return sweep;
    if (!is_sweep(sweep->path))
      return fail(Errc::kNotFound, "{} is not a sweep, so it has no point {}", sweep->id, *number);
    return point_entry(*sweep, static_cast<std::size_t>(*number));
  }
  if (is_slurm_job_id(text)) {
    if (const auto found = run_with_job(entries, text)) return *found;
  }
  if (auto run = run_of_directory(text, current_dir)) {
    if (const auto owner = foreign_owner(run->path)) {
      return fail(Errc::kNotFound,
                  "no run '{0}' of yours; the folder ./{0} is a run of user {1}; give its path to "
                  "use it",
                  printable(text), printable(owner->name));
    }
    return with_entry(std::move(*run), index);
  }
  // The check comes first: after `dlrun rm mnist`, the text "mnist" must not mean mnist-large-...
  DLRUN_TRY(check_not_deleted(text, index, current_dir));
  return run_with_id_prefix(entries, text, accepted);
}

Result<IndexEntry> find_run(const Env& env, const std::filesystem::path& current_dir,
                            std::string_view text, IdStart accepted) {
  const auto index = RunIndex::of_user(env);
  if (!index) {  // a path needs no index
    const auto run = run_of_directory(text, current_dir);
    const bool is_path = text.find('/') != std::string_view::npos;
    if (run && (is_path || !foreign_owner(run->path))) return *run;
    return tl::unexpected(index.error());
  }
  return resolve_run(text, *index, current_dir, accepted);
}

Result<IndexEntry> newest_sweep(const RunIndex& index) {
  DLRUN_TRY_ASSIGN(const auto listing, index.list());
  for (const IndexEntry& entry : listing.entries) {
    if (is_sweep(entry.path) && is_own(entry)) return entry;
  }
  return fail(Errc::kNotFound, "there is no sweep yet (index: {})",
              printable(index.directory().string()));
}

std::optional<IndexEntry> find_run_of_job(const Env& env, std::string_view job) {
  if (!is_slurm_job_id(job)) return std::nullopt;
  const auto index = RunIndex::of_user(env);
  const auto listing = index ? index->list() : tl::unexpected(index.error());
  return listing ? run_with_job(listing->entries, job) : std::nullopt;
}

}  // namespace dlrun
