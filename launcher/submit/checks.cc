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
#include "launcher/submit/known_bad_exclusion.h"
#include "launcher/submit/missing_requirements.h"
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

/// The arguments of check_job(), and the findings of the checks so far.
struct CheckState {
  const Context& context;
  Reporter& reporter;
  RunInspector& inspector;
  Job& job;
  const SweepPlan* sweep;
  NextStep next;
  Checked& found;

  [[nodiscard]] bool is_from_spec() const { return job.source == Job::Source::kSpec; }
};

/// Refuses resources.gpus for a session with several nodes: the session's step runs on one node,
/// and dlrun cannot know how many of the job's GPUs that node has.
Result<> check_session_gpus(CheckState& state) {
  const LoadedSpec& loaded = state.job.experiment->loaded;
  const Resources& wanted = loaded.spec.resources;
  if (!wanted.gpus || !wanted.nodes || wanted.nodes->max <= 1) return {};
  return fail(
      Errc::kUsage,
      "{}: resources.gpus are counted over all nodes, and a session is on one of them: give --set "
      "resources.gpus=null --set resources.gpus_per_node=N, or --set resources.nodes=1",
      loaded.file);
}

Result<> check_options(CheckState& state) {
  if (!state.is_from_spec()) return {};
  const Experiment& experiment = *state.job.experiment;
  if (state.next == NextStep::kSessionPlan)
    return check_salloc_options(state.context, experiment.loaded,
                                salloc_arguments(experiment.plan));
  return check_slurm_options(state.context, state.reporter, experiment.loaded);
}

Result<> read_secrets(CheckState& state) {
  const Job& job = state.job;
  DLRUN_TRY_ASSIGN(
      state.job.settings.secrets,
      state.is_from_spec()
          ? secrets_of_spec(state.context, job.experiment->loaded, state.next != NextStep::kSession)
          : secrets_of_script(
                state.context, job.requests.secrets,
                job.experiment ? job.experiment->plan.secrets : std::vector<SecretSource>()));
  if (state.is_from_spec()) warn_of_readable_secrets(state.reporter, job.experiment->loaded);
  return {};
}

/// Refuses a secret that the container's runtime cannot pass into a session.
Result<> check_container_takes_secrets(CheckState& state) {
  const std::string& runtime = state.job.experiment->plan.runtime;
  for (const SecretValue& secret : state.job.settings.secrets) {
    if (find_container_backend(runtime)->carries_value(secret.value)) continue;
    return fail(
        Errc::kInvalid,
        "environment.secrets: {} cannot pass the value of {} into the container, because the "
        "value has several lines or is in quotes; let the program read a file instead",
        runtime, secret.name);
  }
  return {};
}

Result<> set_dependency(CheckState& state) {
  Job& job = state.job;
  if (!job.experiment) return {};
  if (state.next == NextStep::kSubmission || state.next == NextStep::kTestOnly ||
      state.next == NextStep::kDryRun)
    pin_runs(state.context, job.experiment->loaded, job.experiment->plan);
  LaunchPlan plan = job.experiment->plan;
  plan.clusters = job.settings.clusters;
  std::optional<std::string> dependency_of_given_script;
  if (job.has_given_script()) dependency_of_given_script = job.requests.dependency.value_or("");
  DLRUN_TRY_ASSIGN(auto found,
                   dependency_of(state.context, state.reporter, state.inspector,
                                 job.experiment->loaded, plan, dependency_of_given_script));
  job.settings.dependency = std::move(found.option);
  job.prior_runs = std::move(found.runs);
  // The script has --kill-on-invalid-dep if the spec has `after`. A job that waits only because of
  // --chain or --rehearse has a script without this option, so sbatch gets it as an argument.
  job.settings.is_cancelled_on_invalid_dependency =
      job.settings.dependency && !sbatch_value(job.script, "--kill-on-invalid-dep", "");
  return {};
}

Result<> avoid_bad_nodes(CheckState& state) {
  Job& job = state.job;
  const bool asks_slurm =
      state.next == NextStep::kSession || (state.next != NextStep::kDryRun && !job.settings.server);
  job.settings.exclude = exclude_value_with_bad_nodes(
      state.context, state.reporter, job.known_bad, job.script, job.settings.clusters, asks_slurm);
  return {};
}

Result<> find_missing_downloads(CheckState& state) {
  DLRUN_TRY_ASSIGN(state.found.to_fetch, missing_downloads(state.job.experiment->loaded));
  return {};
}

/// Refuses a job if a tool or a file of its environments is missing. Does nothing for a job
/// whose spec is not loaded (job.experiment). The spec of a run that is submitted again is loaded
/// only if the recorded script does not describe the whole job.
Result<> check_job_environments(CheckState& state) {
  if (!state.job.experiment) return {};
  const bool will_start = state.next == NextStep::kSubmission ||
                          state.next == NextStep::kResubmission ||
                          state.next == NextStep::kSession || state.next == NextStep::kDirectStart;
  return check_environments(state.context, *state.job.experiment,
                            will_start ? ModuleLoading::kAllowed : ModuleLoading::kForbidden);
}

Result<> refuse_missing_files(CheckState& state) {
  if (!state.job.experiment) return {};
  // For a sweep, `dlrun submit --test-only` only asks Slurm about the first array, and checks no
  // files.
  if (state.next == NextStep::kTestOnly && state.sweep != nullptr) return {};
  const LoadedSpec& loaded = state.job.experiment->loaded;
  auto missing = state.next == NextStep::kDirectStart
                     ? check_files(loaded)
                     : check_files_and_image(state.context, loaded);
  const auto is_error = [](const Diagnostic& one) {
    return one.severity == Diagnostic::Severity::kError;
  };
  if (std::any_of(missing.begin(), missing.end(), is_error))
    return fail(Errc::kInvalid, std::move(missing));
  state.reporter.diagnostics(missing);
  state.found.warning_count = missing.size();
  return {};
}

/// Warns about tools that are missing here and that the nodes may have.
Result<> warn_of_missing_requirements(CheckState& state) {
  if (!state.job.experiment || !state.is_from_spec()) return {};
  const auto missing = warnings_about_missing_requirements(state.context, *state.job.experiment);
  state.reporter.diagnostics(missing);
  state.found.warning_count += missing.size();
  return {};
}

/// Reports a note if the spec copies data. Only the agent makes these copies, and a session starts
/// no agent.
Result<> note_uncopied_data(CheckState& state) {
  if (!state.job.experiment) return {};
  const JobSpec& spec = state.job.experiment->loaded.spec;
  if (!spec.stage.empty() || !spec.outputs.empty())
    state.reporter.note("a session copies no data to or from its nodes (stage, outputs)");
  return {};
}

/// Reports a note if the spec is the resolved spec of an earlier run with a copy of the code: such
/// a spec contains the path of the source tree, not the path of the copy.
Result<> note_copy_of_code(CheckState& state) {
  const Job& job = state.job;
  if (!state.is_from_spec() || state.sweep != nullptr || !job.experiment->plan.takes_snapshot)
    return {};
  const auto run = (state.context.current_dir / job.file).lexically_normal().parent_path();
  std::error_code error;
  if (!is_run_directory(run) || !std::filesystem::is_directory(run / "code", error)) return {};
  state.reporter.note(
      fmt::format("code.snapshot: the job runs a new copy of {} as it is now; `dlrun resubmit {}` "
                  "runs the copy in that run's directory",
                  printable(job.code_dir.string()), printable(run.filename().string())));
  return {};
}

/// Calls the executor's check(), which submits nothing. For a sweep that goes to a slurmrestd,
/// submit_sweep() tests the arrays instead.
Result<> check_request(CheckState& state) {
  const Job& job = state.job;
  if (state.sweep != nullptr && job.settings.server) return {};
  DLRUN_TRY(check_can_create_run_in(job.runs_dir));
  DLRUN_TRY_ASSIGN(auto request, request_to_submit(state.context, job.settings,
                                                   std::filesystem::path(job.runs_dir) / job.name,
                                                   "TOKEN", job.script));
  request.keys_of_options = keys_of_options(job);
  return state.inspector.executor_of(job.settings.server).check(request);
}

/// Refuses a session in a heterogeneous job: salloc would allocate the first part only.
Result<> check_session_parts(CheckState& state) {
  if (state.job.experiment->plan.later_parts.empty()) return {};
  return fail(
      Errc::kUsage,
      "{}: the components make a heterogeneous job, and a session can have only one "
      "allocation. Submit the job and use `dlrun attach`; or give --set hetjob=false, which "
      "works only if all components request the same kind of nodes",
      state.job.experiment->loaded.file);
}

/// Asks Slurm about a heterogeneous job before the job is queued. `sbatch --test-only` refuses a
/// part that no node can run. Without this option sbatch would accept the job, and the job would
/// wait forever and could block the jobs after it in the queue.
Result<> ask_about_parts(CheckState& state) {
  const Job& job = state.job;
  if (state.sweep != nullptr || job.settings.server || !line_of_part_separator(job.script))
    return {};
  Executor& executor = state.inspector.executor_of(job.settings.server);
  const auto verdict = executor.test(request_to_test(state.context, job.settings, job.script));
  if (verdict) return {};
  Error error = explained_refusal(state.context, job, executor, verdict.error());
  const bool is_about_whole = error.code == Errc::kRefused && error.diagnostics.empty();
  error.message = fmt::format(
      "{}: nothing was submitted{}: {}", job.file.empty() ? job.name : job.file,
      is_about_whole ? ", because Slurm cannot start all components together" : "", error.message);
  return tl::unexpected(std::move(error));
}

Result<> find_folders_of_logs(CheckState& state) {
  const Job& job = state.job;
  if (state.next == NextStep::kTestOnly && state.sweep != nullptr) return {};
  std::vector<std::string> scripts;
  if (state.sweep != nullptr && state.next != NextStep::kCheckReport) {
    for (const PlannedArray& array : state.sweep->arrays) scripts.push_back(array.script);
  } else {
    scripts = distinct_scripts(job, state.sweep);
  }
  const LoadedSpec* spec = state.is_from_spec() ? &job.experiment->loaded : nullptr;
  for (const std::string& script : scripts) {
    state.found.log_folders.push_back(check_log_folders({script, job.code_dir, job.file, spec,
                                                         job.settings.log_pattern.has_value(),
                                                         job.settings.job_name.value_or("")}));
    DLRUN_TRY(report_log_folder_findings(state.reporter, state.found.log_folders.back()));
  }
  return {};
}

struct CheckRow {
  unsigned steps;  ///< the next steps that need the check, as bits of NextStep
  Result<> (*check)(CheckState&);
};

/// The next steps of `dlrun check` and `dlrun submit`.
constexpr unsigned kNewJobSteps =
    NextStep::kCheckReport | NextStep::kSubmission | NextStep::kTestOnly | NextStep::kDryRun;

constexpr CheckRow kCheckRows[] = {
    {static_cast<unsigned>(NextStep::kSessionPlan), check_session_gpus},
    {static_cast<unsigned>(NextStep::kSessionPlan), check_session_parts},
    {NextStep::kCheckReport | NextStep::kSubmission | NextStep::kTestOnly | NextStep::kSessionPlan,
     check_options},
    {kNewJobSteps | NextStep::kResubmission | NextStep::kSession | NextStep::kDirectStart,
     read_secrets},
    {static_cast<unsigned>(NextStep::kSession), check_container_takes_secrets},
    {static_cast<unsigned>(NextStep::kSession), note_uncopied_data},
    {kNewJobSteps | NextStep::kResubmission | NextStep::kSession, set_dependency},
    {kNewJobSteps | NextStep::kResubmission | NextStep::kSession, avoid_bad_nodes},
    {static_cast<unsigned>(NextStep::kCheckReport), find_missing_downloads},
    {NextStep::kCheckReport | NextStep::kSubmission | NextStep::kTestOnly | NextStep::kDirectStart,
     refuse_missing_files},
    {NextStep::kCheckReport | NextStep::kSubmission | NextStep::kTestOnly |
         NextStep::kResubmission | NextStep::kSession | NextStep::kDirectStart,
     check_job_environments},
    {NextStep::kCheckReport | NextStep::kSubmission | NextStep::kTestOnly,
     warn_of_missing_requirements},
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
  CheckState state{context, reporter, inspector, job, sweep, next, found};
  for (const CheckRow& row : kCheckRows) {
    if ((row.steps & static_cast<unsigned>(next)) != 0) DLRUN_TRY(row.check(state));
  }
  return found;
}

std::string options_without_array(const std::string& script) {
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
    if (seen.insert(options_without_array(array.script)).second) scripts.push_back(array.script);
  }
  return scripts;
}

}  // namespace dlrun
