#include "launcher/submit/checks.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/text.h"
#include "container/container.h"
#include "launcher/plan/render.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/runs/run_directory.h"
#include "launcher/submit/dependencies.h"
#include "launcher/submit/downloads.h"
#include "launcher/submit/environments.h"
#include "launcher/submit/job_secrets.h"
#include "launcher/submit/known_bad.h"
#include "launcher/submit/missing_tools.h"
#include "launcher/submit/refusal.h"
#include "launcher/submit/slurm_options.h"

namespace dlrun {
namespace {

constexpr unsigned operator|(NextStep a, NextStep b) {
  return static_cast<unsigned>(a) | static_cast<unsigned>(b);
}
constexpr unsigned operator|(unsigned a, NextStep b) {
  return a | static_cast<unsigned>(b);
}

/// The job that is being checked, and the arguments of check_job().
struct Work {
  const Context& context;
  Reporter& reporter;
  RunInspector& inspector;
  Job& job;
  const SweepPlan* sweep;
  NextStep next;
  Checked& found;

  [[nodiscard]] bool is_spec() const { return job.source == Job::Source::kSpec; }
};

/// Refuses resources.gpus for a session with several nodes: the session's step runs on one node,
/// and dlrun cannot know how many of the job's GPUs that node has.
Result<> check_session_gpus(Work& work) {
  const LoadedSpec& loaded = work.job.experiment->loaded;
  const Resources& wanted = loaded.spec.resources;
  if (!wanted.gpus || !wanted.nodes || wanted.nodes->max <= 1) return {};
  return fail(
      Errc::kUsage,
      "{}: resources.gpus are counted over all nodes, and a session is on one of them: give --set "
      "resources.gpus=null --set resources.gpus_per_node=N, or --set resources.nodes=1",
      loaded.file);
}

Result<> check_options(Work& work) {
  if (!work.is_spec()) return {};
  const Experiment& experiment = *work.job.experiment;
  if (work.next == NextStep::kSessionPlan)
    return check_salloc_options(work.context, experiment.loaded, salloc_arguments(experiment.plan));
  return check_slurm_options(work.context, work.reporter, experiment.loaded);
}

Result<> read_secrets(Work& work) {
  const Job& job = work.job;
  DLRUN_TRY_ASSIGN(
      work.job.settings.secrets,
      work.is_spec()
          ? secrets_of_spec(work.context, job.experiment->loaded, work.next != NextStep::kSession)
          : secrets_of_script(
                work.context, job.requests.secrets,
                job.experiment ? job.experiment->plan.secrets : std::vector<SecretSource>()));
  return {};
}

/// Refuses a secret that the container's runtime cannot pass into a session.
Result<> check_container_takes_secrets(Work& work) {
  const std::string& runtime = work.job.experiment->plan.runtime;
  for (const SecretValue& secret : work.job.settings.secrets) {
    if (find_container_backend(runtime)->carries_value(secret.value)) continue;
    return fail(
        Errc::kInvalid,
        "environment.secrets: {} cannot pass the value of {} into the container, because it "
        "has several lines or is in quotes; let the program read a file instead",
        runtime, secret.name);
  }
  return {};
}

Result<> find_dependencies(Work& work) {
  Job& job = work.job;
  if (!job.experiment) return {};
  if (work.next == NextStep::kSubmission || work.next == NextStep::kTestOnly ||
      work.next == NextStep::kDryRun)
    pin_runs(work.context, job.experiment->loaded, job.experiment->plan);
  LaunchPlan plan = job.experiment->plan;
  plan.clusters = job.settings.clusters;
  std::optional<std::string> dependency_of_given_script;
  if (job.has_given_script()) dependency_of_given_script = job.requests.dependency.value_or("");
  DLRUN_TRY_ASSIGN(job.settings.dependency,
                   dependency_of(work.context, work.reporter, work.inspector,
                                 job.experiment->loaded, plan, dependency_of_given_script));
  // The script of a job that waits because of --chain or --rehearse does not have the option.
  job.settings.ends_with_invalid_dependency =
      job.settings.dependency && !sbatch_value(job.script, "--kill-on-invalid-dep", "");
  return {};
}

Result<> avoid_bad_nodes(Work& work) {
  Job& job = work.job;
  const bool asks_slurm =
      work.next == NextStep::kSession || (work.next != NextStep::kDryRun && !job.settings.server);
  job.settings.exclude = exclude_known_bad(work.context, work.reporter, job.known_bad, job.script,
                                           job.settings.clusters, asks_slurm);
  return {};
}

Result<> find_missing_downloads(Work& work) {
  DLRUN_TRY_ASSIGN(work.found.to_fetch, missing_downloads(work.job.experiment->loaded));
  return {};
}

/// Refuses a job if a tool or a file of its environments is missing. Does nothing for a job
/// whose spec is not loaded. A run that is submitted again usually needs only the recorded script;
/// its spec is loaded, too (job.experiment), if the script does not describe the whole job.
Result<> check_job_environments(Work& work) {
  if (!work.job.experiment) return {};
  const bool will_start = work.next == NextStep::kSubmission ||
                          work.next == NextStep::kResubmission || work.next == NextStep::kSession ||
                          work.next == NextStep::kDirectStart;
  return check_environments(work.context, *work.job.experiment,
                            will_start ? ModuleLoading::kAllowed : ModuleLoading::kForbidden);
}

Result<> look_for_files(Work& work) {
  if (!work.job.experiment) return {};
  // For a sweep, `dlrun submit --test-only` only asks Slurm, about the first array.
  if (work.next == NextStep::kTestOnly && work.sweep != nullptr) return {};
  const LoadedSpec& loaded = work.job.experiment->loaded;
  auto missing = work.next == NextStep::kDirectStart ? check_files(loaded)
                                                     : check_files_and_image(work.context, loaded);
  const auto is_error = [](const Diagnostic& one) {
    return one.severity == Diagnostic::Severity::kError;
  };
  if (std::any_of(missing.begin(), missing.end(), is_error))
    return fail(Errc::kInvalid, std::move(missing));
  work.reporter.diagnostics(missing);
  work.found.warnings = missing.size();
  return {};
}

/// Warns about tools that are missing here and that the nodes may have.
Result<> warn_of_missing_tools(Work& work) {
  if (!work.job.experiment || !work.is_spec()) return {};
  const auto missing = missing_tools(work.context, *work.job.experiment);
  work.reporter.diagnostics(missing);
  work.found.warnings += missing.size();
  return {};
}

/// Reports a note if the spec copies data. Only the agent makes these copies, and a session starts
/// no agent.
Result<> note_uncopied_data(Work& work) {
  if (!work.job.experiment) return {};
  const JobSpec& spec = work.job.experiment->loaded.spec;
  if (!spec.stage.empty() || !spec.outputs.empty())
    work.reporter.note("a session copies no data to or from its nodes (stage, outputs)");
  return {};
}

/// Reports a note if the spec is the resolved spec of an earlier run with a copy of the code: such
/// a spec names the source tree, not the copy.
Result<> note_copy_of_code(Work& work) {
  const Job& job = work.job;
  if (!work.is_spec() || work.sweep != nullptr || !job.experiment->plan.snapshot) return {};
  const auto run = (work.context.current_dir / job.file).lexically_normal().parent_path();
  std::error_code error;
  if (!is_run_directory(run) || !std::filesystem::is_directory(run / "code", error)) return {};
  work.reporter.note(
      fmt::format("code.snapshot: the job runs a new copy of {} as it is now; `dlrun resubmit {}` "
                  "runs the copy in that run's directory",
                  printable(job.source_dir.string()), printable(run.filename().string())));
  return {};
}

/// Calls the executor's check(), which submits nothing. For a sweep that goes to a slurmrestd,
/// submit_sweep() tests the arrays instead.
Result<> check_request(Work& work) {
  const Job& job = work.job;
  if (work.sweep != nullptr && job.settings.server) return {};
  DLRUN_TRY(check_runs_place(job.runs_dir));
  DLRUN_TRY_ASSIGN(auto request, request_to_submit(work.context, job.settings,
                                                   std::filesystem::path(job.runs_dir) / job.name,
                                                   "TOKEN", job.script));
  request.keys_of_options = keys_of_options(job);
  return work.inspector.executor_of(job.settings.server).check(request);
}

/// Refuses a session in a heterogeneous job: salloc would allocate the first part only.
Result<> check_session_parts(Work& work) {
  if (work.job.experiment->plan.later_parts.empty()) return {};
  return fail(Errc::kUsage,
              "{}: the components make a heterogeneous job, and a session can have only one "
              "allocation. Submit the job and use `dlrun attach`, or give hetjob=false",
              work.job.experiment->loaded.file);
}

/// Asks Slurm about a heterogeneous job before the job is queued. `sbatch --test-only` refuses a
/// part that no node can run. Without this option sbatch would accept the job, and the job would
/// wait forever and could block the jobs after it in the queue.
Result<> ask_about_parts(Work& work) {
  const Job& job = work.job;
  if (work.sweep != nullptr || job.settings.server || !het_line(job.script)) return {};
  Executor& executor = work.inspector.executor_of(job.settings.server);
  const auto verdict = executor.test(request_to_test(work.context, job.settings, job.script));
  if (verdict) return {};
  Error error = explained_refusal(work.context, job, executor, verdict.error());
  const bool is_about_whole = error.code == Errc::kRefused && error.diagnostics.empty();
  error.message = fmt::format(
      "{}: nothing was submitted{}: {}", job.file.empty() ? job.name : job.file,
      is_about_whole ? ", because Slurm cannot start all components together" : "", error.message);
  return tl::unexpected(std::move(error));
}

Result<> find_folders_of_logs(Work& work) {
  const Job& job = work.job;
  if (work.next == NextStep::kTestOnly && work.sweep != nullptr) return {};
  std::vector<std::string> scripts;
  if (work.sweep != nullptr && work.next != NextStep::kCheckReport) {
    for (const PlannedArray& array : work.sweep->arrays) scripts.push_back(array.script);
  } else {
    scripts = distinct_scripts(job, work.sweep);
  }
  const LoadedSpec* spec = work.is_spec() ? &job.experiment->loaded : nullptr;
  for (const std::string& script : scripts) {
    work.found.log_folders.push_back(find_log_folders({script, job.source_dir, job.file, spec,
                                                       job.settings.log_pattern.has_value(),
                                                       job.settings.job_name.value_or("")}));
    DLRUN_TRY(report_log_folders(work.reporter, work.found.log_folders.back()));
  }
  return {};
}

struct Row {
  unsigned steps;  ///< the next steps that need the check, as bits of NextStep
  Result<> (*check)(Work&);
};

/// The steps for a job that is submitted for the first time, or only examined: those of `dlrun
/// check` and `dlrun submit`.
constexpr unsigned kOfNewJob =
    NextStep::kCheckReport | NextStep::kSubmission | NextStep::kTestOnly | NextStep::kDryRun;

constexpr Row kRows[] = {
    {static_cast<unsigned>(NextStep::kSessionPlan), check_session_gpus},
    {static_cast<unsigned>(NextStep::kSessionPlan), check_session_parts},
    {NextStep::kCheckReport | NextStep::kSubmission | NextStep::kTestOnly | NextStep::kSessionPlan,
     check_options},
    {kOfNewJob | NextStep::kResubmission | NextStep::kSession | NextStep::kDirectStart,
     read_secrets},
    {static_cast<unsigned>(NextStep::kSession), check_container_takes_secrets},
    {static_cast<unsigned>(NextStep::kSession), note_uncopied_data},
    {kOfNewJob | NextStep::kResubmission | NextStep::kSession, find_dependencies},
    {kOfNewJob | NextStep::kResubmission | NextStep::kSession, avoid_bad_nodes},
    {static_cast<unsigned>(NextStep::kCheckReport), find_missing_downloads},
    {NextStep::kCheckReport | NextStep::kSubmission | NextStep::kTestOnly | NextStep::kDirectStart,
     look_for_files},
    {NextStep::kCheckReport | NextStep::kSubmission | NextStep::kTestOnly |
         NextStep::kResubmission | NextStep::kSession | NextStep::kDirectStart,
     check_job_environments},
    {NextStep::kCheckReport | NextStep::kSubmission | NextStep::kTestOnly, warn_of_missing_tools},
    {NextStep::kSubmission | NextStep::kTestOnly, note_copy_of_code},
    {NextStep::kSubmission | NextStep::kResubmission, check_request},
    {NextStep::kSubmission | NextStep::kResubmission, ask_about_parts},
    {NextStep::kCheckReport | NextStep::kSubmission | NextStep::kTestOnly | NextStep::kResubmission,
     find_folders_of_logs},
};

}  // namespace

Result<Checked> check_job(const Context& context, Reporter& reporter, RunInspector& inspector,
                          Job& job, const SweepPlan* sweep, NextStep next) {
  Checked found;
  Work work{context, reporter, inspector, job, sweep, next, found};
  for (const Row& row : kRows) {
    if ((row.steps & static_cast<unsigned>(next)) != 0) DLRUN_TRY(row.check(work));
  }
  return found;
}

std::string options_besides_array(const std::string& script) {
  std::string text;
  for (const auto& line : sbatch_lines(script)) {
    for (const auto& word : line) {
      if (!word.starts_with("--array")) text += word + "\n";
    }
  }
  return text;
}

std::vector<std::string> distinct_scripts(const Job& job, const SweepPlan* sweep) {
  if (sweep == nullptr) return {job.script};
  std::vector<std::string> scripts;
  std::set<std::string> seen;
  for (const PlannedArray& array : sweep->arrays) {
    if (seen.insert(options_besides_array(array.script)).second) scripts.push_back(array.script);
  }
  return scripts;
}

}  // namespace dlrun
