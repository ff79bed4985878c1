// Looks up the state of each run in `after`. If the run has ended, this file decides whether its
// end fulfils the condition. If the run has not ended, its job becomes a part of --dependency.

#include "launcher/submit/dependencies.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

/// Fails with kUsage if a run of `after` belongs to another user. id: the run's name in the
/// message.
Result<> check_is_own(const std::string& id, const std::filesystem::path& run) {
  const auto owner = foreign_owner(run);
  if (!owner) return {};
  return fail(Errc::kUsage,
              "{} belongs to user {}, so `after` cannot name it. Give the id of its Slurm job "
              "instead",
              printable(id), printable(owner->name));
}

/// Checks that Slurm can make the plan's job wait for the run's job.
Result<> check_can_wait_for(const std::string& id, const RunStatus& status,
                            const LaunchPlan& plan) {
  if (status.state == RunState::kRefused || status.job.id.empty())
    return fail(Errc::kInvalid, "{} has no job to wait for: it is {}", id, word(status.state));
  if (status.job.cluster == kLocalCluster)
    return fail(Errc::kInvalid,
                "{} runs on this machine, and Slurm cannot wait for it; `dlrun wait {}` can", id,
                id);
  if (status.job.cluster != plan.clusters.value_or(""))
    return fail(Errc::kInvalid, "{} is a job of another cluster, {}", id,
                status.job.cluster.empty() ? "the default one" : status.job.cluster);
  return {};
}

/// Returns true if the job has ended. A job that Slurm refused never existed.
bool has_ended(const RunStatus& status) {
  return is_over(status) && status.state != RunState::kRefused;
}

/// hint: what the user can do, with the separator before it; "" if there is nothing to suggest.
tl::unexpected<Error> never_starts_error(const std::string& id, RunState state,
                                         const std::string& hint) {
  return fail(Errc::kInvalid, "{} is {}: this job would never start{}", id, word(state), hint);
}

/// Returns advice for the end of a message about a run that did not end as `after` requires: how to
/// submit the job after a new run. Returns "" for after.notok: the run succeeded, so there is no
/// reason to run it again.
std::string hint_for_new_run(const std::string& id, const PlannedDependency& one,
                             const Origin& where, const LaunchPlan& plan) {
  if (one.type != "afterok") return {};
  const auto runs_of_key =
      std::count_if(plan.after.begin(), plan.after.end(),
                    [&](const PlannedDependency& other) { return other.key == one.key; });
  // --set replaces the whole list.
  if (where.kind != Origin::Kind::kFile || runs_of_key > 1)
    return fmt::format(". Submit the spec of {} again, and name the new run in {}", id, one.key);
  return fmt::format(
      ". Submit the spec of {} again; then `dlrun submit {} --set {}=RUN` submits this job after "
      "the new run RUN. If `dlrun submit --chain` submitted both, submit all specs with "
      "--chain again",
      id, shell_quote(where.source), one.key);
}

/// Returns the dependency on a sweep: on its arrays, or on each unfinished task and job if a point
/// was submitted again. A sweep succeeds if all its points succeed.
Result<PriorRun> dependency_on_sweep(const IndexEntry& sweep, RunInspector& inspector,
                                     const LaunchPlan& plan, const std::string& type) {
  DLRUN_TRY_ASSIGN(const auto record, read_sweep(sweep.path));
  std::vector<std::filesystem::path> runs;
  for (const auto& point : record.points)
    runs.push_back(current_run_of(point_path(sweep.path, point)));
  const auto states = inspector.inspect_all(runs);
  std::vector<std::string> unfinished, arrays;  // ids of tasks and jobs; ids of arrays
  bool has_only_tasks = true, has_failed = false;
  for (std::size_t point = 0; point < states.size(); ++point) {
    const std::string id = fmt::format("{}/{}", sweep.id, point);
    const auto& status = states[point];
    if (!status) return tl::unexpected(status.error());
    DLRUN_TRY(check_is_own(id, runs[point]));
    const auto underscore = status->job.id.find('_');
    has_only_tasks = has_only_tasks && underscore != std::string::npos;
    if (has_ended(*status)) {
      const bool is_completed = status->state == RunState::kCompleted;
      has_failed = has_failed || !is_completed;
      if (!is_completed && type == "afterok")
        return never_starts_error(
            id, status->state,
            fmt::format(". Submit the point again first: `dlrun resubmit {}`", id));
      continue;
    }
    DLRUN_TRY(check_can_wait_for(id, *status, plan));
    unfinished.push_back(status->job.id);
    const std::string array = status->job.id.substr(0, underscore);
    if (std::find(arrays.begin(), arrays.end(), array) == arrays.end()) arrays.push_back(array);
  }
  const auto& jobs = has_only_tasks ? arrays : unfinished;
  const bool waits_for_failure = type == "afternotok" && !has_failed;
  if (waits_for_failure && jobs.empty())
    return never_starts_error(sweep.id, RunState::kCompleted, "");
  if (waits_for_failure && jobs.size() > 1)
    return fail(Errc::kInvalid,
                "the sweep {} consists of {} jobs. Slurm cannot wait until any one of them fails; "
                "list points in after.notok",
                sweep.id, jobs.size());
  if (jobs.empty())
    return PriorRun{sweep.id, "", has_failed ? RunState::kFailed : RunState::kCompleted};
  // A point that has failed fulfils afternotok; the job then only waits for the other points to
  // end.
  const std::string condition = type == "afternotok" && has_failed ? "afterany" : type;
  return PriorRun{sweep.id, condition + ":" + join(jobs, ":")};
}

/// Returns the dependency on one run. where: the place of the run in the spec, for advice.
Result<PriorRun> dependency_on_run(const Context& context, RunInspector& inspector,
                                   const LaunchPlan& plan, const PlannedDependency& one,
                                   const Origin& where) {
  if (one.is_job_id()) return PriorRun{"", one.type + ":" + one.run};
  DLRUN_TRY_ASSIGN(const auto run, find_run(context.env, context.current_dir, one.run));
  DLRUN_TRY(check_is_own(run.id, run.path));
  if (is_sweep(run.path)) return dependency_on_sweep(run, inspector, plan, one.type);
  DLRUN_TRY_ASSIGN(const auto status, inspector.inspect(run.path));
  if (has_ended(status)) {
    const bool is_completed = status.state == RunState::kCompleted;
    const bool is_fulfilled = one.type == "afterany" || is_completed == (one.type == "afterok");
    if (is_fulfilled) return PriorRun{run.id, "", status.state};
    return never_starts_error(run.id, status.state, hint_for_new_run(run.id, one, where, plan));
  }
  DLRUN_TRY(check_can_wait_for(run.id, status, plan));
  // The last job of a chain ends after the run, and its exit code says whether the run succeeded.
  const auto chain = chain_jobs_of(status.facts);
  return PriorRun{run.id, one.type + ":" + (chain.empty() ? status.job.id : chain.back().id)};
}

/// Adds the run, unless it is there already: `after` and --chain may name the same run.
void add_once(std::vector<PriorRun>& runs, PriorRun run) {
  if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(std::move(run));
}

/// Returns the conditions of the runs as one value for --dependency, without duplicates; nullopt if
/// there are none.
std::optional<std::string> option_of(const std::vector<PriorRun>& runs) {
  std::vector<std::string> parts;
  for (const PriorRun& run : runs) {
    if (!run.condition.empty() &&
        std::find(parts.begin(), parts.end(), run.condition) == parts.end())
      parts.push_back(run.condition);
  }
  return parts.empty() ? std::optional<std::string>() : std::optional(join(parts, ","));
}

/// Returns the message without line breaks, because the message of a diagnostic has one line. A
/// message about an ambiguous id has a line for each run.
std::string in_one_line(std::string_view message) {
  std::string text;
  for (const std::string_view line : split(message, '\n')) {
    if (!text.empty()) text += text.ends_with(':') ? " " : ", ";
    text += trim(line);
  }
  return text;
}

/// Returns advice for the end of a message about a run that is gone: the command that submits the
/// job without this dependency. Returns "" if the dependency does not come from a file.
std::string hint_without_dependency(const Origin& where, const std::string& key) {
  if (where.kind != Origin::Kind::kFile) return {};
  return fmt::format(". `dlrun submit {} --set {}=null` submits the job without waiting",
                     shell_quote(where.source), key);
}

/// Returns the job ids in "afterok:12:13_4+5,afterany:14?singleton".
std::vector<std::string> job_ids_in(std::string_view dependency) {
  std::vector<std::string> ids;
  std::string id;
  char before = 0, before_id = 0;
  const auto take = [&] {
    if (before_id == ':' && !id.empty()) ids.push_back(id);
    id.clear();
  };
  for (const char c : dependency) {
    const bool is_digit = c >= '0' && c <= '9';
    if (is_digit && id.empty()) before_id = before;
    if (is_digit || (c == '_' && !id.empty())) {
      id += c;
    } else {
      take();
    }
    before = c;
  }
  take();
  return ids;
}

/// Warns of jobs that Slurm never knew or has forgotten, because Slurm treats them as ended.
/// Ignores an unreachable controller, because the submission reports it.
void warn_of_unknown_jobs(Reporter& reporter, RunInspector& inspector, const LoadedSpec& loaded,
                          const LaunchPlan& plan,
                          const std::optional<std::string>& dependency_of_given_script) {
  struct AwaitedJob {
    std::string key, id;
  };
  std::vector<AwaitedJob> awaited;
  if (dependency_of_given_script) {
    for (auto& id : job_ids_in(*dependency_of_given_script))
      awaited.push_back({"--dependency", std::move(id)});
  } else {
    for (const PlannedDependency& one : plan.after) {
      if (one.is_job_id()) awaited.push_back({one.key, one.run});
    }
  }
  if (awaited.empty()) return;
  Executor& executor = inspector.executor_of(plan.server);
  for (const AwaitedJob& one : awaited) {
    // A query about several jobs could make slurmrestd send all jobs of the cluster.
    const JobId job{plan.clusters.value_or(""), one.id};
    const auto answer = executor.query({&job, 1}, {});
    if (!answer) return;
    if (!answer->reports.empty()) continue;
    const auto origin = loaded.spec.origins.find(one.key);
    const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
    const std::string message = fmt::format(
        "{}: Slurm does not know job {}; the dependency would have no effect", one.key, one.id);
    if (dependency_of_given_script) {
      reporter.warning(message);
    } else {
      reporter.diagnostics(
          {{Diagnostic::Severity::kWarning, where, message, source_line_of(loaded, where)}});
    }
  }
}

}  // namespace

Result<Dependencies> dependency_of(const Context& context, Reporter& reporter,
                                   RunInspector& inspector, const LoadedSpec& loaded,
                                   const LaunchPlan& plan,
                                   const std::optional<std::string>& dependency_of_given_script) {
  warn_of_unknown_jobs(reporter, inspector, loaded, plan, dependency_of_given_script);
  const bool has_only_job_ids =
      std::all_of(plan.after.begin(), plan.after.end(),
                  [](const PlannedDependency& one) { return one.is_job_id(); });
  Dependencies found;
  if (has_only_job_ids) {  // the script has the dependency
    if (dependency_of_given_script) {
      if (!dependency_of_given_script->empty())
        add_once(found.runs, {"", *dependency_of_given_script});
      return found;
    }
    for (const PlannedDependency& one : plan.after)
      add_once(found.runs, {"", one.type + ":" + one.run});
    return found;
  }
  std::vector<Diagnostic> wrong;
  if (dependency_of_given_script && dependency_of_given_script->find('?') != std::string::npos) {
    return fail(Errc::kInvalid,
                "--dependency={} uses `?` (any one of these jobs). Slurm cannot combine this with "
                "the jobs that `after` in the script's spec waits for. Remove one of the two",
                *dependency_of_given_script);
  }
  if (dependency_of_given_script && !dependency_of_given_script->empty())
    add_once(found.runs, {"", *dependency_of_given_script});
  for (const PlannedDependency& one : plan.after) {
    if (dependency_of_given_script && one.is_job_id()) continue;
    const auto origin = loaded.spec.origins.find(one.key);
    const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
    // Messages suggest commands that change this key in the spec. They suggest none if the key is
    // in a base of the spec.
    const Origin in_spec = where.source == loaded.file ? where : Origin{};
    auto run = dependency_on_run(context, inspector, plan, one, in_spec);
    if (run) {
      add_once(found.runs, std::move(*run));
      continue;
    }
    const bool is_gone = run.error().code == Errc::kNotFound;
    wrong.push_back({Diagnostic::Severity::kError, where,
                     fmt::format("{}: {}{}", one.key, in_one_line(run.error().message),
                                 is_gone ? hint_without_dependency(in_spec, one.key) : ""),
                     source_line_of(loaded, where)});
  }
  if (!wrong.empty()) return fail(Errc::kInvalid, std::move(wrong));
  found.option = option_of(found.runs);
  return found;
}

std::vector<std::string> waits_texts(const std::vector<PriorRun>& runs) {
  std::vector<std::string> texts, ended;
  for (const PriorRun& run : runs) {
    if (run.condition.empty()) {
      ended.push_back(run.end == RunState::kCompleted
                          ? fmt::format("{} has completed", printable(run.id))
                          : fmt::format("{} has ended ({})", printable(run.id), word(run.end)));
    } else {
      texts.push_back(printable(run.condition) +
                      (run.id.empty() ? "" : fmt::format(" ({})", printable(run.id))));
    }
  }
  if (!ended.empty()) texts.push_back((texts.empty() ? "for nothing: " : "") + join(ended, ", "));
  return texts;
}

void pin_runs(const Context& context, LoadedSpec& loaded, LaunchPlan& plan) {
  const auto pin = [&](std::string& name) {
    if (PlannedDependency{"", name, ""}.is_job_id()) return;
    if (const auto run = find_run(context.env, context.current_dir, name))
      name = run->path.string();
  };
  AfterSpec& after = loaded.spec.after;
  for (auto* names : {&after.ok, &after.any, &after.notok}) {
    for (std::string& name : *names) pin(name);
  }
  for (PlannedDependency& one : plan.after) pin(one.run);
}

}  // namespace dlrun
