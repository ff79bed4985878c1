// Submits a sweep's arrays: all of them at first, later only those that Slurm does not have.

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/dependencies.h"
#include "cli/downloads.h"
#include "cli/expectations.h"
#include "cli/recording.h"
#include "cli/report.h"
#include "cli/secrets.h"
#include "cli/sweep.h"
#include "cli/terminal/json_or_null.h"
#include "cli/terminal/print.h"
#include "cli/terminal/words.h"
#include "common/files.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/plan/sbatch_words.h"
#include "launcher/runs/json_read.h"
#include "launcher/runs/ownership.h"
#include "launcher/spec/sweep_points.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kScriptLimit = 16U << 20U;

/// One array to submit, by one call of sbatch.
struct ArrayToSend {
  std::size_t array = 0;
  std::string script;
  std::optional<std::string> tasks;  ///< sbatch's --array, if it differs from the script
  std::string first_point;  ///< the first point, for messages: "point 3: resources.partition=gpu"
};

struct Sent {
  std::vector<Submission> arrays;
  bool interrupted = false;
};

/// Returns the dependency that makes an array wait for the array before it. This keeps sweep-wide
/// limits on parallel points: Slurm's own limit counts within each array.
std::optional<std::string> dependency_after(const SubmitPlan& submit, const std::string& before) {
  if (before.empty()) return submit.dependency;
  const std::string word = "afterany:" + before;
  return submit.dependency ? *submit.dependency + "," + word : word;
}

/// Returns true for messages about nodes that are not available. They may be down for an hour or
/// missing for good; sbatch can tell these cases apart, --test-only cannot.
bool may_be_queued_yet(const std::string& words) {
  for (const char* phrase :
       {"Requested node configuration is not available", "Requested nodes are busy",
        "Required node not available", "Requested partition configuration not available now"}) {
    if (words.find(phrase) != std::string::npos) return true;
  }
  return false;
}

/// Asks Slurm about each distinct set of options once, so that no array is queued if a later one
/// will be refused. Moves the arrays that --test-only cannot judge to the front: if sbatch refuses
/// one of them, nothing is queued yet.
Result<> test_and_order(const Cli& cli, const std::filesystem::path& run,
                        std::vector<ArrayToSend>& arrays, const SubmitPlan& plan,
                        Executor& executor) {
  // sbatch itself refuses a single array, with nothing queued before it
  if (arrays.size() < 2) return {};
  std::map<std::string, bool> open;  // by options: true if --test-only cannot judge them
  for (const ArrayToSend& one : arrays) {
    const std::string options = options_of_array(one.script);
    if (open.contains(options)) continue;
    auto request = submit_request(cli, array_path(run, one.array), "TOKEN", plan);
    if (!request) return tl::unexpected(request.error());
    request->script_text = one.script;
    const auto words = executor.test(*request);
    if (!words && !may_be_queued_yet(words.error().message))
      return fail(words.error().code, "nothing was submitted: {}: {}", one.first_point,
                  words.error().message);
    if (!words) {
      print_warning(cli, fmt::format("{}: Slurm may queue it and not start it: {}", one.first_point,
                                     words.error().message));
    }
    open[options] = !words;
  }
  std::stable_partition(arrays.begin(), arrays.end(),
                        [&](const ArrayToSend& one) { return open[options_of_array(one.script)]; });
  return {};
}

std::string how_to_go_on(const RunDirectory& run, std::size_t sent, std::size_t all) {
  return fmt::format(
      "{} of {} arrays are queued: `dlrun resubmit {}` submits the rest, `dlrun cancel {}` ends "
      "them",
      sent, all, run.handle(), run.handle());
}

/// Submits the arrays in order. before: the job that the first array waits for, if a limit holds
/// over all arrays.
Result<> send(const Cli& cli, const RunDirectory& run, const std::vector<ArrayToSend>& arrays,
              const SubmitPlan& plan, bool is_throttled, std::string before, Executor& executor,
              Sent& sent) {
  for (const ArrayToSend& one : arrays) {
    SubmitPlan submit = plan;
    submit.is_array = true;
    submit.array_tasks = one.tasks;
    submit.dependency = dependency_after(plan, is_throttled ? before : "");
    const RunDirectory array{fmt::format("{}/array-{}", run.id, one.array), run.name,
                             array_path(run.path, one.array), run.created};
    auto outcome = submit_once(cli, array, submit, executor);
    if (!outcome) {
      const std::string words =
          sent.arrays.empty() ? outcome.error().message
                              : fmt::format("{}; the next: {}",
                                            how_to_go_on(run, sent.arrays.size(), arrays.size()),
                                            outcome.error().message);
      return fail(outcome.error().code, "{}", words);
    }
    before = outcome->submission.job.id;
    sent.arrays.push_back(std::move(outcome->submission));
    sent.interrupted = sent.interrupted || outcome->interrupted;
    if (sent.interrupted && sent.arrays.size() < arrays.size())
      return fail(Errc::kInterrupted, "interrupted: {}",
                  how_to_go_on(run, sent.arrays.size(), arrays.size()));
  }
  return {};
}

void tell_json(const Cli& cli, const RunDirectory& run, const Sent& sent, std::size_t points,
               std::optional<std::int64_t> max_parallel, const SweepPlan* sweep) {
  Json out;
  out["run"] = run.id;
  out["name"] = run.name;
  out["path"] = run.path.string();
  Json jobs = Json::array();
  for (const Submission& array : sent.arrays) jobs.push_back(array.job.id);
  out["jobs"] = std::move(jobs);
  out["cluster"] = text_or_null(sent.arrays.empty() ? "" : sent.arrays.front().job.cluster);
  const auto report = sent.arrays.empty() ? std::nullopt : glance(cli, sent.arrays.front());
  out["start"] = text_or_null(report ? report->start : "");
  out["points"] = points;
  out["max_parallel"] = value_or_null(max_parallel);
  out["gpu_hours"] =
      sweep != nullptr ? value_or_null(sum_of_hours(*sweep, gpu_hours)) : Json(nullptr);
  out["core_hours"] =
      sweep != nullptr ? value_or_null(sum_of_hours(*sweep, core_hours)) : Json(nullptr);
  print_json(out);
}

/// Prints the submitted sweep. size: "6 points, 2 at once; at most 2.7 GPU-hours altogether".
void tell(const Cli& cli, const RunDirectory& run, const std::string& size, const Sent& sent) {
  std::vector<std::string> jobs;
  for (const Submission& array : sent.arrays) jobs.push_back(array.job.id);
  constexpr std::size_t kShown = 8;
  const bool is_cut = jobs.size() > kShown;
  if (is_cut) jobs.resize(kShown);
  print(cli, "{} {} as job{} {}{}\n", styled(Style::kGreen, "submitted"),
        styled(Style::kBold, run.id), sent.arrays.size() == 1 ? "" : "s", join(jobs, " "),
        is_cut ? fmt::format(" ... ({} arrays)", sent.arrays.size()) : "");
  flush_output();  // before Slurm is asked again, which may take time
  const auto report = sent.arrays.empty() ? std::nullopt : glance(cli, sent.arrays.front());
  if (report) print(cli, "  start      {}\n", start_text(*report));
  print(cli, "  sweep      {}\n  directory  {}\n", size, run.path.string());
  const std::string point =
      run.is_indexed ? run.id + "/0" : (array_path(run.path, 0) / "0").string();
  print(cli,
        "  points     dlrun sweep {0}\n  state      dlrun status {0}\n  one point  dlrun logs -f "
        "{1}\n",
        run.handle(), point);
  flush_output();
  if (const auto never = report ? never_text(*report) : ""; !never.empty())
    print_warning(cli, fmt::format("{}, `dlrun cancel {}` takes it back", never, run.handle()));
}

/// Returns the message that replaces the output if standard output fails.
std::string queued_text(const RunDirectory& run, const Sent& sent) {
  std::vector<std::string> jobs;
  for (const Submission& array : sent.arrays) jobs.push_back(array.job.id);
  return fmt::format("the sweep {} is submitted, as job{} {}; `dlrun status {}` tells of it",
                     run.id, jobs.size() == 1 ? "" : "s", join(jobs, " "), run.handle());
}

Result<int> after_sending(const Cli& cli, const RunDirectory& run, const Sent& sent,
                          RunInspector& inspector, const Follow& follow) {
  if (sent.interrupted) {
    print_note(cli,
               fmt::format("interrupted, but Slurm has taken the jobs; `dlrun cancel {}` ends them",
                           run.handle()));
    return kExitInterrupted;
  }
  if (!follow.watch) return kExitOk;
  return watch_to_the_end(cli, inspector, {run.id, run.name, run.path, run.created},
                          sent.arrays.front().job.id, follow.json);
}

bool is_outcome_open(const Result<>& done) {
  return !done && (done.error().code == Errc::kUnavailable || done.error().code == Errc::kTimeout);
}

/// Returns the tasks as sbatch's --array: "3-5,9".
std::string ranges_of(const std::set<std::size_t>& tasks) {
  std::vector<std::string> parts;
  for (auto first = tasks.begin(); first != tasks.end();) {
    auto last = first;
    for (auto next = std::next(last); next != tasks.end() && *next == *last + 1; ++next)
      last = next;
    parts.push_back(first == last ? std::to_string(*first) : fmt::format("{}-{}", *first, *last));
    first = std::next(last);
  }
  return join(parts, ",");
}

/// The points that Slurm does not have, as arrays to submit.
struct Missing {
  std::vector<ArrayToSend> arrays;
  std::vector<std::filesystem::path> points;
  std::string last_job;  ///< the job of the last unfinished array
};

Result<Missing> find_missing(const IndexEntry& run, const SweepRecord& sweep,
                             RunInspector& inspector) {
  std::vector<std::filesystem::path> current;
  for (const auto& point : sweep.points)
    current.push_back(current_run_of(point_path(run.path, point)));
  const auto states = inspector.inspect_all(current);
  Missing missing;
  std::map<std::size_t, std::set<std::size_t>> tasks;
  std::map<std::size_t, std::size_t> points_of_array, first_points;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const SweepRecord::Point& point = sweep.points[i];
    ++points_of_array[point.array];
    if (!states[i]) return tl::unexpected(states[i].error());
    const RunStatus& status = *states[i];
    DLRUN_TRY(require_own(fmt::format("{}/{}", run.id, i), current[i], "submitted again"));
    if (status.is_last_known && !is_final(status.state) && status.job.id.empty())
      return fail(Errc::kUnavailable, "{}/{}: {}", run.id, i, status.detail);
    if (status.state == RunState::kUnknown && status.is_last_known)
      return fail(Errc::kUnavailable, "{}/{}: {}", run.id, i, status.detail);
    const bool is_own = current[i] == point_path(run.path, point);
    if (is_own && !is_final(status.state))
      missing.last_job = status.job.id.substr(0, status.job.id.find('_'));
    if (!is_own || (status.state != RunState::kNotSubmitted && status.state != RunState::kRefused))
      continue;
    // A submission of a single point checks the sweep's lock in the same way as this one checks
    // the point's.
    if (is_being_submitted(current[i]) || current_run_of(current[i]) != current[i])
      return fail(Errc::kRefused,
                  "{}/{}: another dlrun is submitting it; try again when that is done", run.id, i);
    if (tasks[point.array].empty()) first_points[point.array] = i;
    tasks[point.array].insert(point.task);
    missing.points.push_back(current[i]);
  }
  for (const auto& [array, wanted] : tasks) {
    auto script =
        read_untrusted(array_path(run.path, array) / "job.sh", kScriptLimit, Links::kRefuse);
    if (!script) return tl::unexpected(script.error());
    const std::size_t first = first_points[array];
    ArrayToSend one{array, std::move(*script), std::nullopt,
                    fmt::format("point {}: {}", first, describe(sweep, sweep.points[first]))};
    if (wanted.size() < points_of_array[array]) {
      one.tasks = ranges_of(wanted);
      if (sweep.max_parallel) *one.tasks += fmt::format("%{}", *sweep.max_parallel);
    }
    missing.arrays.push_back(std::move(one));
  }
  return missing;
}

}  // namespace

std::string options_of_array(const std::string& script) {
  std::string text;
  for (const auto& words : sbatch_lines(script)) {
    for (const auto& word : words) {
      if (!word.starts_with("--array")) text += word + "\n";
    }
  }
  return text;
}

Result<int> submit_sweep(const Cli& cli, const Prepared& prepared, const SubmitPlan& plan,
                         Provenance& provenance, RunInspector& inspector, const Follow& follow) {
  const auto sweep =
      prepare_sweep(cli, prepared, max_array_size(cli.env, plan.clusters.value_or("")));
  if (!sweep) return tl::unexpected(sweep.error());
  Executor& executor = inspector.executor_of(plan.server);
  std::vector<ArrayToSend> arrays;
  for (std::size_t i = 0; i < sweep->arrays.size(); ++i) {
    const auto first = std::find_if(sweep->points.begin(), sweep->points.end(),
                                    [&](const auto& point) { return point.array == i; });
    arrays.push_back(
        {i, sweep->arrays[i].script, std::nullopt,
         fmt::format("point {}: {}", first - sweep->points.begin(), describe(first->values))});
  }
  std::vector<LogFolders> logs;
  for (const ArrayToSend& one : arrays) {
    logs.push_back(find_log_folders(
        {one.script, prepared.plan.folder, "", &prepared.loaded, plan.log_pattern.has_value()}));
    DLRUN_TRY(check_log_folders(cli, logs.back()));
  }
  DLRUN_TRY(test_and_order(cli, std::filesystem::path(prepared.plan.runs_dir) / prepared.plan.name,
                           arrays, plan, executor));
  DLRUN_TRY(fetch_downloads(cli, prepared.loaded));
  if (!prepared.plan.agent.empty()) DLRUN_TRY(stage(cli, prepared.plan.runs_dir));
  const auto run = record_sweep(cli, prepared, *sweep, plan.secrets);
  if (!run) return tl::unexpected(run.error());
  for (const LogFolders& folders : logs) DLRUN_TRY(make_log_folders(folders));
  SubmitPlan submit = plan;
  if (prepared.plan.snapshot) {
    auto snapshot = snapshot_for(cli, prepared.plan.folder, prepared.plan.runs_dir, *run);
    if (!snapshot) return tl::unexpected(snapshot.error());
    submit.chdir = std::move(*snapshot);
  }
  Sent sent;
  Result<> done;
  {
    const auto lock = SubmissionLock::hold(run->path);
    DLRUN_TRY(write_submit_plan(run->path, submit));
    provenance.set_image(prepared.loaded.spec.container.image.value_or(""));
    done = send(cli, *run, arrays, submit, sweep->max_parallel.has_value(), "", executor, sent);
  }
  if (auto written = provenance.write(run->path); !written) {
    print_warning(
        cli, fmt::format("where the run came from is not recorded: {}", written.error().message));
  }
  if (!done && !is_outcome_open(done)) {
    // An array that was not submitted will not read its secrets.
    std::set<std::size_t> taken;
    for (std::size_t i = 0; i < sent.arrays.size(); ++i) taken.insert(arrays[i].array);
    for (const PlannedPoint& point : sweep->points) {
      if (!taken.contains(point.array))
        remove_secrets(array_path(run->path, point.array) / std::to_string(point.task));
    }
  }
  if (!done && sent.arrays.empty()) return tl::unexpected(done.error());
  const auto told = print_or_say(
      [&] {
        if (follow.json) {
          tell_json(cli, *run, sent, sweep->points.size(), sweep->max_parallel, &*sweep);
        } else {
          tell(cli, *run, size_text(*sweep), sent);
        }
      },
      queued_text(*run, sent));
  if (!done) return tl::unexpected(done.error());
  if (!told) return tl::unexpected(told.error());
  return after_sending(cli, *run, sent, inspector, follow);
}

Result<int> submit_missing(const Cli& cli, const IndexEntry& entry, RunInspector& inspector,
                           const Follow& follow) {
  const RunDirectory run{entry.id, entry.name, entry.path, entry.created};
  const auto sweep = read_sweep(run.path);
  if (!sweep) return tl::unexpected(sweep.error());
  Sent sent;
  std::size_t points = 0;
  {
    // The lock is taken before the missing points are determined, so that of two concurrent
    // resubmissions only one proceeds.
    const auto lock = SubmissionLock::take(run.path);
    if (!lock) return tl::unexpected(lock.error());
    auto missing = find_missing(entry, *sweep, inspector);
    if (!missing) return tl::unexpected(missing.error());
    if (missing->points.empty()) {
      return fail(Errc::kUsage,
                  "{0}: all its points were submitted: `dlrun resubmit {0}/N` submits one point "
                  "again, `dlrun submit "
                  "{1}` all",
                  run.id, (run.path / "resolved.yaml").string());
    }
    points = missing->points.size();
    auto plan = read_submit_plan(run.path);
    if (!plan) return tl::unexpected(plan.error());
    const auto script =
        read_untrusted(missing->points.front() / "job.sh", kScriptLimit, Links::kRefuse);
    if (!script) return tl::unexpected(script.error());
    const auto prepared = plan_beside_script(cli, run.path, *script);
    if (!prepared) return tl::unexpected(prepared.error());
    if (*prepared) {
      DLRUN_TRY(fetch_downloads(cli, (*prepared)->loaded));
      auto secrets = secrets_of_script(cli, *script, (*prepared)->plan.secrets);
      if (!secrets) return tl::unexpected(secrets.error());
      plan->secrets = std::move(*secrets);
      LaunchPlan planned = (*prepared)->plan;
      planned.clusters = plan->clusters;
      auto dependency = dependency_of(cli, inspector, (*prepared)->loaded, planned);
      if (!dependency) return tl::unexpected(dependency.error());
      plan->dependency = std::move(*dependency);
    }
    Executor& executor = inspector.executor_of(plan->server);
    DLRUN_TRY(test_and_order(cli, run.path, missing->arrays, *plan, executor));
    for (const auto& point : missing->points) {
      remove_secrets(point);
      DLRUN_TRY(write_secrets(point, plan->secrets));
      unmark_cancelled(point);
    }
    for (const ArrayToSend& one : missing->arrays)
      unmark_cancelled(array_path(run.path, one.array));
    const auto done = send(cli, run, missing->arrays, *plan, sweep->max_parallel.has_value(),
                           missing->last_job, executor, sent);
    if (!done && !is_outcome_open(done)) {
      std::set<std::filesystem::path> taken;
      for (std::size_t i = 0; i < sent.arrays.size(); ++i)
        taken.insert(array_path(run.path, missing->arrays[i].array));
      for (const auto& point : missing->points) {
        if (!taken.contains(point.parent_path())) remove_secrets(point);
      }
    }
    if (!done) return tl::unexpected(done.error());
  }
  DLRUN_TRY(print_or_say(
      [&] {
        if (follow.json) {
          tell_json(cli, run, sent, points, sweep->max_parallel, nullptr);
        } else {
          tell(cli, run,
               fmt::format("{} of {} points, which Slurm did not have", points,
                           sweep->points.size()),
               sent);
        }
      },
      queued_text(run, sent)));
  return after_sending(cli, run, sent, inspector, follow);
}

}  // namespace dlrun
