#include "launcher/cleanup/cleanup.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/executors/slurm_parse.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

/// A run without a job may be one that another dlrun is about to submit: the other dlrun records
/// the run first, and may then copy the code for minutes. A run that still has no job after this
/// time counts as abandoned.
constexpr std::chrono::hours kSubmissionPatience{1};

/// Fails with kInvalid if a run without sweep.json has the array of a sweep: the states of the
/// points cannot be read without sweep.json. Call only for a run without this file.
Result<> check_is_no_damaged_sweep(const IndexEntry& run) {
  struct stat info {};
  if (::lstat((array_path(run.path, 0) / "submission.json").c_str(), &info) != 0) return {};
  return fail(Errc::kInvalid,
              "{0}: is a sweep whose sweep.json is missing, so it is left alone: a point may still "
              "run. If you are sure that all points have ended, delete {1} by hand; `dlrun rm {0}` "
              "then removes the sweep from the list",
              run.id, printable(run.path.string()));
}

/// If Slurm has answered that an ended run has no new job, dlrun does not ask again within this
/// time. Otherwise a deletion of a thousand runs would ask Slurm a thousand times.
constexpr std::chrono::minutes kAnswerValidFor{1};

/// Returns the directories whose states decide about the run: the run's directory, or for a sweep
/// the directories of its points. For a point that was resubmitted, returns the directory of the
/// point and not of the new run, because the point's first job may still run.
Result<std::vector<fs::path>> directories_of(const IndexEntry& run) {
  if (!is_sweep(run.path)) {
    DLRUN_TRY(check_is_no_damaged_sweep(run));
    return std::vector<fs::path>{run.path};
  }
  DLRUN_TRY_ASSIGN(const auto sweep, read_sweep(run.path));
  std::vector<fs::path> points;
  for (const auto& point : sweep.points) points.push_back(point_path(run.path, point));
  return points;
}

/// Returns the time of the last change of the files that a submission writes first.
std::chrono::system_clock::time_point recorded_at(const fs::path& run) {
  std::time_t newest = 0;
  for (const char* file : {"job.sh", "spec.yaml", "submission.json", "sweep.json"}) {
    struct stat info {};
    if (::lstat((run / file).c_str(), &info) == 0) newest = std::max(newest, info.st_mtim.tv_sec);
  }
  return std::chrono::system_clock::from_time_t(newest);
}

/// Fails with kUsage if the job of an ended run waits or runs again, for example because an
/// administrator has requeued it, or if the job still runs long after the recorded end. Allows a
/// job that still runs a moment after the end: its script records the end before it exits.
Result<> check_has_no_new_job(const std::string& id, const RunStatus& status) {
  const auto& report = status.facts.report;
  if (!report || report->phase == JobPhase::kEnded) return {};
  const std::string_view token = token_of(status.facts);
  // Slurm, or another cluster, may have given the id to another job.
  if (!token.empty() && !starts_with_dlrun_comment(report->comment, fmt::format("dlrun:{}", token)))
    return {};
  const std::string start = utc_of_slurm_time(report->start);
  const std::string& end = status.facts.record.end_time;
  constexpr std::chrono::minutes kLongestExit{5};  // from the recorded end to the job's end
  const bool ended_long_ago = end < utc_timestamp(std::chrono::system_clock::now() - kLongestExit);
  if (report->phase == JobPhase::kRunning && !ended_long_ago && (start.empty() || start <= end))
    return {};
  const bool is_requeued = report->phase == JobPhase::kPending || (!start.empty() && start > end);
  return fail(Errc::kUsage, "{}: has ended, but Slurm {} its job {} ({}), so it is left alone{}",
              id, is_requeued ? "has queued or started" : "has not finished", report->job.id,
              printable(report->state),
              is_requeued && !token.empty()
                  ? fmt::format("; `scancel {}` ends the job", report->job.id)
                  : "");
}

/// Fails unless it is certain that the run, or one point of the sweep, has no job and gets none.
/// id: the id of the run, or of the point in `directory`.
Result<> check_is_done(const IndexEntry& run, const std::string& id, const fs::path& directory,
                       const RunStatus& status) {
  if (const auto& owner = status.facts.foreign)
    return fail(Errc::kUsage, "{}: belongs to user {}, so it is left alone", id,
                printable(owner->name));
  if (is_unreachable(status))
    return fail(Errc::kUnavailable, "{}: is left alone, because its state is not known now: {}", id,
                status.facts.why_unreachable);
  if (is_over(status)) return check_has_no_new_job(id, status);
  switch (status.state) {
    case RunState::kPending:
    case RunState::kRunning:
      return fail(Errc::kUsage, "{0}: is {1}{2}; `dlrun cancel {0}` ends it", id,
                  word(status.state),
                  status.job.id.empty() ? "" : fmt::format(" (job {})", status.job.id));
    case RunState::kNotSubmitted:
      if (std::chrono::system_clock::now() - recorded_at(directory) > kSubmissionPatience)
        return {};
      return fail(Errc::kUsage,
                  "{}: is not submitted yet, or its submission was interrupted less than an hour "
                  "ago; try again in an hour",
                  id);
    default: {
      const bool is_point = directory != run.path;
      return fail(
          Errc::kUsage,
          "{}: its state is unknown, so it is left alone: {}. If you are sure that {}, delete "
          "{} by hand; `dlrun rm {}` then removes the {} from the list",
          id, status.detail, is_point ? "all points have ended" : "its job has ended",
          printable(run.path.string()), run.id, is_point ? "sweep" : "run");
    }
  }
}

/// Returns the folder of the sweep and the point (SWEEP/NUMBER) from which `dlrun resubmit` made
/// the run. Returns nullopt if the run was not made from a point, or if the sweep does not refer to
/// it.
std::optional<std::pair<fs::path, std::string>> sweep_that_needs(const IndexEntry& run) {
  constexpr std::size_t kLimit = 1U << 20U;
  const auto text = read_untrusted(run.path / "provenance.json", kLimit, Links::kRefuse);
  const auto json = text ? json_read::object_of(*text) : std::nullopt;
  const std::string repeated_run = json ? json_read::text(*json, "repeats") : std::string();
  const auto slash = repeated_run.find('/');
  const auto number =
      slash == std::string::npos ? std::nullopt : parse_int(repeated_run.substr(slash + 1));
  if (!number || *number < 0) return std::nullopt;
  // The directory of a point's repetition is in the same folder as that of the sweep.
  const auto path = run.path.parent_path() / repeated_run.substr(0, slash);
  const auto sweep = is_sweep(path) ? read_sweep(path) : fail(Errc::kNotFound, "");
  if (!sweep || static_cast<std::size_t>(*number) >= sweep->points.size()) return std::nullopt;
  const auto runs =
      runs_of_point(point_path(path, sweep->points[static_cast<std::size_t>(*number)]));
  const bool refers_to_run = std::find(runs.begin(), runs.end(), run.path) != runs.end();
  return refers_to_run ? std::optional(std::pair(path, repeated_run)) : std::nullopt;
}

/// Returns the path with its symbolic links resolved; the unchanged path if that fails.
fs::path real_path(const fs::path& path) {
  std::error_code error;
  auto real = fs::weakly_canonical(path, error);
  return error ? path : real;
}

bool is_below(const fs::path& path, const fs::path& folder) {
  const std::string start = folder.native() + "/";
  return path.native().starts_with(start);
}

/// Decides which runs are deleted. The entries of the index must outlive this object.
class Decider {
 public:
  Decider(RunInspector& inspector, const std::vector<IndexEntry>& indexed, RunParts parts)
      : inspector_(inspector), indexed_(indexed), parts_(parts) {}

  /// Returns the run's state, or fails with the reason why the run stays. sweeps_to_delete: the
  /// paths of sweeps that are deleted before the run.
  Result<RunState> state_if_deletable(const IndexEntry& run,
                                      const std::set<fs::path>& sweeps_to_delete, EndedRuns ended) {
    DLRUN_TRY(check_all_but_state(run, sweeps_to_delete));
    DLRUN_TRY_ASSIGN(const auto directories, directories_of(run));
    const auto states = inspector_.inspect_all(directories, {}, ended);
    return state_if_deletable(run, directories, states);
  }

  /// Decides about these runs, the oldest first. Asks about all of them together, to save queries.
  CleanupPlan decide_all(std::vector<IndexEntry> runs) {
    std::sort(runs.begin(), runs.end(), [](const IndexEntry& a, const IndexEntry& b) {
      return a.created != b.created ? a.created < b.created : a.id < b.id;
    });
    CleanupPlan plan;
    plan.parts = parts_;
    std::set<fs::path> sweeps_to_delete;
    for (const IndexEntry& run : runs) {
      if (is_sweep(run.path)) sweeps_to_delete.insert(run.path);
    }
    struct Candidate {
      const IndexEntry* run;
      std::vector<fs::path> directories;
    };
    std::vector<Candidate> candidates;
    std::vector<fs::path> all_directories;
    for (const IndexEntry& run : runs) {
      auto directories = directories_if_allowed(run, sweeps_to_delete);
      if (!directories) {
        plan.kept.push_back({run, directories.error()});
        sweeps_to_delete.erase(run.path);
        continue;
      }
      all_directories.insert(all_directories.end(), directories->begin(), directories->end());
      candidates.push_back({&run, std::move(*directories)});
    }
    asked_at_ = std::chrono::steady_clock::now();
    const auto states = inspector_.inspect_all(all_directories, {}, EndedRuns::kAskExecutor);
    std::span<const Result<RunStatus>> states_left(states);
    for (const Candidate& one : candidates) {
      const auto states_of_run = states_left.first(one.directories.size());
      states_left = states_left.subspan(states_of_run.size());
      auto state = state_if_deletable(*one.run, one.directories, states_of_run);
      if (const auto not_needed = check_not_needed(*one.run, sweeps_to_delete);
          state && !not_needed)
        state = tl::unexpected<Error>(not_needed.error());
      add(plan, *one.run, state);
      // If a sweep stays, its repetitions, which come later, stay, too.
      if (plan.deletions.empty() || plan.deletions.back().run.path != one.run->path)
        sweeps_to_delete.erase(one.run->path);
    }
    return plan;
  }

 private:
  Result<std::vector<fs::path>> directories_if_allowed(const IndexEntry& run,
                                                       const std::set<fs::path>& sweeps_to_delete) {
    DLRUN_TRY(check_all_but_state(run, sweeps_to_delete));
    return directories_of(run);
  }

  Result<RunState> state_if_deletable(const IndexEntry& run,
                                      const std::vector<fs::path>& directories,
                                      std::span<const Result<RunStatus>> states) {
    for (std::size_t i = 0; i < states.size(); ++i) {
      const std::string id = directories[i] == run.path ? run.id : fmt::format("{}/{}", run.id, i);
      if (!states[i]) return within(id, states[i].error());
      DLRUN_TRY(check_is_done(run, id, directories[i], *states[i]));
    }
    return is_sweep(run.path) ? sum_up_points({states.begin(), states.end()}).state
                              : states.front()->state;
  }

  /// Adds the run to the plan's deletions, or to the kept runs if `state` is an error or if the
  /// files cannot be examined. With kDiagnostics, only counts a run that has no diagnostic files.
  void add(CleanupPlan& plan, const IndexEntry& run, const Result<RunState>& state) {
    auto examined = state ? examine_run(run, parts_) : tl::unexpected<Error>(state.error());
    if (!examined) {
      plan.kept.push_back({run, examined.error()});
    } else if (parts_ == RunParts::kAll || examined->size.files > 0) {
      plan.deletions.push_back({run, *state, *examined, false, asked_at_});
    } else {
      ++plan.runs_without_diagnostics;
    }
  }

  /// Fails if the whole run is deleted and `dlrun resubmit` made it from a point whose sweep stays.
  Result<> check_not_needed(const IndexEntry& run, const std::set<fs::path>& sweeps_to_delete) {
    if (parts_ == RunParts::kDiagnostics) return {};
    const auto sweep = sweep_that_needs(run);
    if (!sweep || sweeps_to_delete.contains(sweep->first)) return {};
    return fail(Errc::kUsage,
                "{}: its result counts for the point {} of a sweep. Delete the sweep first: "
                "`dlrun rm {}`",
                run.id, sweep->second, printable(sweep->first.filename().string()));
  }

  /// Fails if the run belongs to another user or is a point of a sweep. If the whole run is
  /// deleted, also fails if a sweep that stays needs the run, or if another run is inside its
  /// directory. Does not look at the run's state.
  Result<> check_all_but_state(const IndexEntry& run, const std::set<fs::path>& sweeps_to_delete) {
    DLRUN_TRY(require_own(run.id, run.path, "delete it"));
    const auto sweep = sweep_of_point(run.path);
    if (run.id.find('/') != std::string::npos || sweep) {
      return fail(
          Errc::kUsage,
          "{}: is a point of a sweep, and a sweep is deleted as a whole: `dlrun rm {}`", run.id,
          sweep ? printable(sweep->filename().string()) : run.id.substr(0, run.id.find('/')));
    }
    DLRUN_TRY(check_not_needed(run, sweeps_to_delete));
    if (parts_ == RunParts::kDiagnostics) return {};
    const fs::path real_run = real_path(run.path);
    for (const IndexEntry& other : indexed_) {
      struct stat info {};
      if (is_below(real_path_in_folder(other.path), real_run) &&
          ::lstat(other.path.c_str(), &info) == 0)
        return fail(Errc::kUsage, "{}: the run {} is inside its directory; delete that run first",
                    run.id, other.id);
    }
    return {};
  }

  /// Returns the real path of the run's folder, followed by the run's name. Looks at each folder
  /// once, because the index may have ten thousand runs of one folder.
  fs::path real_path_in_folder(const fs::path& run) {
    const fs::path folder = run.parent_path();
    auto known = real_folders_.find(folder);
    if (known == real_folders_.end())
      known = real_folders_.emplace(folder, real_path(folder)).first;
    return known->second / run.filename();
  }

  RunInspector& inspector_;
  const std::vector<IndexEntry>& indexed_;
  RunParts parts_;
  /// When decide_all() asked Slurm about all runs.
  std::chrono::steady_clock::time_point asked_at_{};
  std::map<fs::path, fs::path> real_folders_;
};

bool is_directory_gone(const IndexEntry& run) {
  struct stat info {};
  return ::lstat(run.path.c_str(), &info) != 0 && errno == ENOENT;
}

/// Returns the time from which the age of a run counts: the latest of its recorded end, its last
/// event and its creation. For a sweep, all points count. The times are texts in UTC, which sort by
/// time.
std::string last_time_of(const IndexEntry& run) {
  std::string last = run.created;
  const auto directories = directories_of(run);
  if (!directories) return last;
  for (const fs::path& directory : *directories) {
    const auto record = read_events(directory);
    if (!record) continue;
    last = std::max({last, record->end_time, record->last_time});
  }
  return last;
}

}  // namespace

TreeSize CleanupPlan::size() const {
  TreeSize sum;
  for (const PlannedDeletion& planned : deletions) sum += planned.examined.size;
  return sum;
}

Result<CleanupPlan> plan_removal(const Env& env, RunInspector& inspector,
                                 const std::vector<IndexEntry>& runs) {
  DLRUN_TRY_ASSIGN(const auto index, RunIndex::of_user(env));
  DLRUN_TRY_ASSIGN(const auto listing, index.list());
  std::vector<IndexEntry> present;
  std::vector<PlannedDeletion> gone;
  std::set<fs::path> seen;  // `runs` may have a run twice
  for (const IndexEntry& run : runs) {
    if (!seen.insert(run.path).second) continue;
    if (is_directory_gone(run)) {
      gone.push_back({run, RunState::kUnknown, {}, true, {}});
    } else {
      present.push_back(run);
    }
  }
  CleanupPlan plan =
      Decider(inspector, listing.entries, RunParts::kAll).decide_all(std::move(present));
  plan.deletions.insert(plan.deletions.begin(), gone.begin(), gone.end());
  for (const IndexEntry& run : runs) plan.folders.insert(run.path.parent_path());
  return plan;
}

Result<CleanupPlan> plan_pruning(const Env& env, RunInspector& inspector,
                                 const PruneRequest& request) {
  DLRUN_TRY_ASSIGN(const auto index, RunIndex::of_user(env));
  DLRUN_TRY_ASSIGN(const auto listing, index.list());
  const std::string limit = utc_timestamp(std::chrono::system_clock::now() - request.older_than);
  std::error_code error;
  fs::path folder;
  if (!request.folder.empty()) {
    folder = fs::weakly_canonical(request.folder, error);
    // An empty path is an error here, because it would mean all runs.
    if (error || folder.empty())
      return fail(Errc::kIo, "{}: {}", printable(request.folder.string()), error.message());
  }
  std::vector<IndexEntry> old;
  for (const IndexEntry& run : listing.entries) {
    // A run that was created after the limit has also ended after it. Most runs are skipped for
    // this reason, without a look into their files.
    if (run.created >= limit || is_directory_gone(run)) continue;
    if (!folder.empty() && fs::weakly_canonical(run.path.parent_path(), error) != folder) continue;
    if (foreign_owner_of_path(run.path)) continue;
    if (last_time_of(run) < limit) old.push_back(run);
  }
  CleanupPlan plan = Decider(inspector, listing.entries, request.parts).decide_all(std::move(old));
  plan.tolerates_busy_runs = true;
  for (const IndexEntry& run : listing.entries) {
    const auto parent = run.path.parent_path();
    if (folder.empty() || fs::weakly_canonical(parent, error) == folder)
      plan.folders.insert(parent);
  }
  return plan;
}

Result<TreeDeletion> delete_planned(const Env& env, RunInspector& inspector,
                                    const PlannedDeletion& planned, RunParts parts) {
  DLRUN_TRY_ASSIGN(const auto index, RunIndex::of_user(env));
  if (planned.is_gone) return remove_run_without_directory(index, planned.run);
  DLRUN_TRY_ASSIGN(const auto listing, index.list());
  Decider decider(inspector, listing.entries, parts);
  const bool is_recent = std::chrono::steady_clock::now() - planned.asked_at < kAnswerValidFor;
  const auto ended = is_recent ? EndedRuns::kTrustRecord : EndedRuns::kAskExecutor;
  return delete_run(index, planned.run, planned.examined.identity, parts,
                    [&] { return decider.state_if_deletable(planned.run, {}, ended); });
}

TreeDeletion finish_interrupted_deletions(const CleanupPlan& plan) {
  TreeDeletion done;
  for (const fs::path& folder : plan.folders) done += finish_deletions(folder).done;
  return done;
}

}  // namespace dlrun
