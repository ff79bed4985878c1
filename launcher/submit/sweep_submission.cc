// Submits a sweep's arrays: first all of them, later only those that Slurm does not have.

#include <algorithm>
#include <map>
#include <set>

#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/cancel_mark.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/submit/dependencies.h"
#include "launcher/submit/downloads.h"
#include "launcher/submit/environments.h"
#include "launcher/submit/job_secrets.h"
#include "launcher/submit/recording.h"
#include "launcher/submit/sbatch_settings.h"
#include "launcher/submit/submit_once.h"
#include "launcher/submit/submitting.h"

namespace dlrun {
namespace {

constexpr std::size_t kScriptLimit = 16U << 20U;  // bytes

/// One array to submit, by one call of sbatch.
struct ArrayToSend {
  std::size_t array = 0;
  std::string script;
  std::optional<std::string> tasks;  ///< sbatch's --array; nullopt: as the script says
  std::string first_point;  ///< the first point, for messages: "point 3: resources.partition=gpu"
};

/// The limits on the number of points that run at the same time.
struct Throttle {
  std::optional<std::int64_t> max_parallel;  ///< in the whole sweep; nullopt: any number
  std::size_t pack = 1;                      ///< in one task of an array (sweep.pack)
};

/// The submissions that succeeded, in the order of the arrays.
struct Sent {
  std::vector<Submission> arrays;
  bool is_interrupted = false;
};

/// Returns the dependency that makes an array wait for the end of `job`. Slurm limits only how many
/// tasks of the same array run at the same time. With this wait, sweep.max_parallel holds for all
/// arrays together. job: empty: none.
std::optional<std::string> dependency_after(const SbatchSettings& settings,
                                            const std::string& job) {
  if (job.empty()) return settings.dependency;
  const std::string after_job = "afterany:" + job;
  return settings.dependency ? *settings.dependency + "," + after_job : after_job;
}

/// Returns true if --test-only refuses the job only because nodes are not available now: sbatch may
/// still queue it. --test-only gives this reason for nodes that are down and for nodes that do not
/// exist; only sbatch distinguishes the two cases.
bool may_still_be_queued(const Error& verdict) {
  return verdict.refusal == SlurmRefusal::kNodesUnavailable;
}

/// Asks Slurm about each distinct set of options once, so that no array is queued if a later one
/// will be refused. Moves the arrays that --test-only cannot judge to the front: if sbatch refuses
/// one of them, nothing is queued yet.
Result<> test_and_order(const Context& context, Reporter& reporter,
                        const std::filesystem::path& run, std::vector<ArrayToSend>& arrays,
                        const SbatchSettings& shared, Executor& executor) {
  // A single array needs no test: if sbatch refuses it, nothing is queued.
  if (arrays.size() < 2) return {};
  // Key: options. Value: true if --test-only cannot judge an array with these options.
  std::map<std::string, bool> undecided_by_options;
  for (const ArrayToSend& one : arrays) {
    const std::string options = options_without_array(one.script);
    if (undecided_by_options.contains(options)) continue;
    DLRUN_TRY_ASSIGN(
        const auto request,
        request_to_submit(context, shared, array_path(run, one.array), "TOKEN", one.script));
    const auto verdict = executor.test(request);
    if (!verdict && !may_still_be_queued(verdict.error()))
      return fail(verdict.error().code, "nothing was submitted: {}: {}", one.first_point,
                  verdict.error().message);
    if (!verdict) {
      reporter.warning(fmt::format("{}: Slurm may queue it and not start it: {}", one.first_point,
                                   verdict.error().message));
    }
    undecided_by_options[options] = !verdict;
  }
  std::stable_partition(arrays.begin(), arrays.end(), [&](const ArrayToSend& one) {
    return undecided_by_options[options_without_array(one.script)];
  });
  return {};
}

std::string how_to_continue(const RunDirectory& run, std::size_t sent_count,
                            std::size_t array_count) {
  return fmt::format(
      "{} of {} arrays are queued: `dlrun resubmit {}` submits the rest, `dlrun cancel {}` ends "
      "the queued ones",
      sent_count, array_count, run.handle(), run.handle());
}

/// Submits the arrays in order. If throttle.max_parallel is set, the first array waits for
/// `job_before` (empty: none), and each later array for the array before it.
Result<> send(const Context& context, const RunDirectory& run,
              const std::vector<ArrayToSend>& arrays, const SbatchSettings& shared,
              const Throttle& throttle, std::string job_before, Executor& executor, Sent& sent) {
  for (const ArrayToSend& one : arrays) {
    SbatchSettings settings = shared;
    settings.is_array = true;
    settings.is_packed = throttle.pack > 1;
    settings.array_tasks = one.tasks;
    settings.dependency = dependency_after(shared, throttle.max_parallel ? job_before : "");
    const RunDirectory array{fmt::format("{}/array-{}", run.id, one.array), run.name,
                             array_path(run.path, one.array), run.created};
    const Interrupt interrupt;
    auto submission = submit_once(context, array, settings, executor, interrupt);
    if (!submission) {
      const std::string message =
          sent.arrays.empty() ? submission.error().message
                              : fmt::format("{}; the error of the next array: {}",
                                            how_to_continue(run, sent.arrays.size(), arrays.size()),
                                            submission.error().message);
      return fail(submission.error().code, "{}", message);
    }
    job_before = submission->job.id;
    sent.arrays.push_back(std::move(*submission));
    sent.is_interrupted = sent.is_interrupted || interrupt.requested();
    if (sent.is_interrupted && sent.arrays.size() < arrays.size())
      return fail(Errc::kInterrupted, "interrupted: {}",
                  how_to_continue(run, sent.arrays.size(), arrays.size()));
  }
  return {};
}

/// Removes the secrets of those points whose array Slurm has certainly not accepted. An array whose
/// submission got no answer may still be queued and then reads its secrets. point_folders: the
/// points' run directories; the parent of each is its array's directory.
void remove_secrets_of_unaccepted(const std::vector<std::filesystem::path>& point_folders) {
  // Key: an array's directory. Value: true if Slurm may still have the array.
  std::map<std::filesystem::path, bool> may_run_by_array;
  for (const auto& point : point_folders) {
    const auto array = point.parent_path();
    if (!may_run_by_array.contains(array)) {
      const auto submission = read_submission(array);
      may_run_by_array[array] =
          !submission || (*submission && (*submission)->state != Submission::State::kRefused);
    }
    if (!may_run_by_array[array]) remove_secrets(point);
  }
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
struct MissingPoints {
  std::vector<ArrayToSend> arrays;
  std::vector<std::filesystem::path> points;  ///< their run directories
  /// The job of the last point, in the sweep's order, that is pending or running; empty: none. A
  /// point that was submitted again as a run of its own does not count.
  std::string last_active_job;
};

Result<MissingPoints> find_missing_points(const IndexEntry& run, const SweepRecord& sweep,
                                          RunInspector& inspector) {
  std::vector<std::filesystem::path> current;
  for (const auto& point : sweep.points)
    current.push_back(current_run_of(point_path(run.path, point)));
  const auto states = inspector.inspect_all(current);
  MissingPoints missing;
  // Keys: the arrays.
  std::map<std::size_t, std::set<std::size_t>> missing_tasks, all_tasks;
  std::map<std::size_t, std::size_t> first_points;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const SweepRecord::Point& point = sweep.points[i];
    all_tasks[point.array].insert(sweep.task_of(point));
    if (!states[i]) return tl::unexpected(states[i].error());
    const RunStatus& status = *states[i];
    DLRUN_TRY(require_own(fmt::format("{}/{}", run.id, i), current[i], "submit it again"));
    if (status.may_be_outdated && !is_inactive(status.state) && status.job.id.empty())
      return fail(Errc::kUnavailable, "{}/{}: {}", run.id, i, status.detail);
    if (status.state == RunState::kUnknown && status.may_be_outdated)
      return fail(Errc::kUnavailable, "{}/{}: {}", run.id, i, status.detail);
    const bool has_no_later_run = current[i] == point_path(run.path, point);
    if (has_no_later_run && !is_inactive(status.state))
      missing.last_active_job = status.job.id.substr(0, status.job.id.find('_'));
    if (!has_no_later_run ||
        (status.state != RunState::kNotSubmitted && status.state != RunState::kRefused))
      continue;
    // Two processes cannot submit the same point. This process holds the sweep's lock, and checks
    // the point's lock here. A process that submits a single point holds the point's lock, and
    // checks the sweep's lock.
    if (is_being_submitted(current[i]) || current_run_of(current[i]) != current[i])
      return fail(Errc::kRefused,
                  "{}/{}: another dlrun is submitting it; try again when that is done", run.id, i);
    if (missing_tasks[point.array].empty()) first_points[point.array] = i;
    missing_tasks[point.array].insert(sweep.task_of(point));
    missing.points.push_back(current[i]);
  }
  for (const auto& [array, tasks] : missing_tasks) {
    DLRUN_TRY_ASSIGN(auto script, read_untrusted(array_path(run.path, array) / "job.sh",
                                                 kScriptLimit, Links::kRefuse));
    const std::size_t first = first_points[array];
    ArrayToSend one{array, std::move(script), std::nullopt,
                    fmt::format("point {}: {}", first, describe(sweep, sweep.points[first]))};
    if (tasks.size() < all_tasks[array].size()) {
      one.tasks = ranges_of(tasks);
      const auto pack = static_cast<std::int64_t>(sweep.pack);
      if (sweep.max_parallel)
        *one.tasks += fmt::format("%{}", std::max<std::int64_t>(*sweep.max_parallel / pack, 1));
    }
    missing.arrays.push_back(std::move(one));
  }
  return missing;
}

}  // namespace

Result<Submitted> submit_sweep(const Context& context, Reporter& reporter, RunInspector& inspector,
                               Job job, SweepPlan sweep, const Checked& checked,
                               Provenance& provenance, HeldToken* token) {
  const Experiment& experiment = *job.experiment;
  const LaunchPlan& plan = experiment.plan;
  Executor& executor = inspector.executor_of(job.settings.server);
  std::vector<ArrayToSend> arrays;
  for (std::size_t i = 0; i < sweep.arrays.size(); ++i) {
    const auto first = std::find_if(sweep.points.begin(), sweep.points.end(),
                                    [&](const auto& point) { return point.array == i; });
    arrays.push_back(
        {i, sweep.arrays[i].script, std::nullopt,
         fmt::format("point {}: {}", first - sweep.points.begin(), describe(first->values))});
  }
  job.settings.is_array = false;  // set for each array
  DLRUN_TRY(test_and_order(context, reporter, std::filesystem::path(plan.runs_dir) / plan.name,
                           arrays, job.settings, executor));
  DLRUN_TRY(fetch_downloads(reporter, experiment.loaded));
  DLRUN_TRY(build_environments(context, reporter, experiment));
  if (!plan.agent.empty())
    DLRUN_TRY(prepare_runs_folder(context, reporter, plan.runs_dir, sweep.uses_trainer()));
  for (const LogFolderFindings& folders : checked.log_folders)
    DLRUN_TRY(make_missing_log_folders(folders));
  DLRUN_TRY_ASSIGN(auto run,
                   record_sweep(context, reporter, experiment, sweep, job.settings.secrets, token));
  if (plan.takes_snapshot) {
    DLRUN_TRY_ASSIGN(job.settings.chdir,
                     copy_code_into_run(context, plan.folder, plan.runs_dir, run));
  }
  Sent sent;
  Result<> done;
  {
    const auto lock = SubmissionLock::take_if_free(run.path);
    provenance.set_image(job.image);
    done = write_sbatch_settings(run.path, job.settings);
    if (done) {
      done = send(context, run, arrays, job.settings, {sweep.max_parallel, sweep.pack}, "",
                  executor, sent);
    }
  }
  write_provenance(reporter, provenance, run.path);
  if (!done) {
    std::vector<std::filesystem::path> points;
    for (const PlannedPoint& point : sweep.points)
      points.push_back(array_path(run.path, point.array) / std::to_string(point.point_in_array));
    remove_secrets_of_unaccepted(points);
  }
  if (!done && sent.arrays.empty()) return tl::unexpected(done.error());
  Submitted submitted;
  submitted.job = std::move(job);
  submitted.run = std::move(run);
  submitted.submissions = std::move(sent.arrays);
  submitted.is_interrupted = sent.is_interrupted;
  submitted.points = Submitted::Points{sweep.points.size(), sweep.points.size(), sweep.max_parallel,
                                       std::move(sweep)};
  if (!done) submitted.failure = done.error();
  return submitted;
}

Result<> submit_more_points(const Context& context, RunInspector& inspector,
                            const RunDirectory& run, const SbatchSettings& settings,
                            const SweepPlan& more) {
  const auto lock = SubmissionLock::take_if_free(run.path);
  DLRUN_TRY_ASSIGN(const auto first_array, record_more_points(run.path, more, settings.secrets));
  std::vector<ArrayToSend> arrays;
  for (std::size_t i = 0; i < more.arrays.size(); ++i)
    arrays.push_back({first_array + i, more.arrays[i].script, std::nullopt, ""});
  Sent sent;
  return send(context, run, arrays, settings, {std::nullopt, more.pack}, "",
              inspector.executor_of(settings.server), sent);
}

namespace {

/// Sets in `settings` the secrets, which submit.json does not store, and the jobs that the sweep
/// waits for now. Fetches missing downloads and builds missing environments. Does nothing if the
/// sweep's script alone describes its jobs. point: the run directory of a missing point.
Result<> prepare_resubmission(const Context& context, Reporter& reporter, RunInspector& inspector,
                              const std::filesystem::path& sweep,
                              const std::filesystem::path& point, SbatchSettings& settings) {
  DLRUN_TRY_ASSIGN(const auto script,
                   read_untrusted(point / "job.sh", kScriptLimit, Links::kRefuse));
  const auto names = parse_script_requests(script, "job.sh").secrets;
  DLRUN_TRY_ASSIGN(const auto experiment,
                   recorded_experiment_if_needed(context, sweep, !names.empty()));
  if (!experiment) return {};
  const LoadedSpec& loaded = experiment->loaded;
  DLRUN_TRY(fetch_downloads(reporter, loaded));
  DLRUN_TRY(build_environments(context, reporter, *experiment));
  DLRUN_TRY_ASSIGN(settings.secrets, secrets_of_script(context, names, experiment->plan.secrets));
  LaunchPlan planned = experiment->plan;
  planned.clusters = settings.clusters;
  DLRUN_TRY_ASSIGN(auto prior, dependency_of(context, reporter, inspector, loaded, planned));
  settings.dependency = std::move(prior.option);
  return {};
}

}  // namespace

Result<Submitted> submit_missing_points(const Context& context, Reporter& reporter,
                                        RunInspector& inspector, const IndexEntry& entry) {
  const RunDirectory run{entry.id, entry.name, entry.path, entry.created};
  DLRUN_TRY_ASSIGN(const auto sweep, read_sweep(run.path));
  // The lock is taken before the missing points are determined, so that of two concurrent
  // resubmissions only one proceeds.
  DLRUN_TRY_ASSIGN(const auto lock, SubmissionLock::take(run.path));
  DLRUN_TRY_ASSIGN(auto missing, find_missing_points(entry, sweep, inspector));
  if (missing.points.empty()) {
    return fail(Errc::kUsage,
                "{0}: all its points were submitted: `dlrun resubmit {0}/N` submits point N again, "
                "`dlrun submit {1}` submits all points as a new sweep",
                run.id, printable((run.path / "resolved.yaml").string()));
  }
  DLRUN_TRY_ASSIGN(auto settings, read_sbatch_settings(run.path));
  DLRUN_TRY(prepare_resubmission(context, reporter, inspector, run.path, missing.points.front(),
                                 settings));
  Executor& executor = inspector.executor_of(settings.server);
  DLRUN_TRY(test_and_order(context, reporter, run.path, missing.arrays, settings, executor));
  for (const auto& point : missing.points) {
    remove_secrets(point);
    DLRUN_TRY(write_secrets(point, settings.secrets));
    unmark_cancelled(point);
  }
  for (const ArrayToSend& one : missing.arrays) unmark_cancelled(array_path(run.path, one.array));
  Sent sent;
  const auto done = send(context, run, missing.arrays, settings, {sweep.max_parallel, sweep.pack},
                         missing.last_active_job, executor, sent);
  if (!done) remove_secrets_of_unaccepted(missing.points);
  if (!done) return tl::unexpected(done.error());
  Submitted submitted;
  submitted.job.settings = std::move(settings);
  submitted.run = run;
  submitted.submissions = std::move(sent.arrays);
  submitted.is_interrupted = sent.is_interrupted;
  submitted.points = Submitted::Points{missing.points.size(), sweep.points.size(),
                                       sweep.max_parallel, std::nullopt};
  return submitted;
}

}  // namespace dlrun
