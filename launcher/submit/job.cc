// job_of_script_text() sets the fields that all three kinds of jobs have. Its callers add the
// fields that only one kind has, such as the server of a plan or the folder of a run's copy of the
// code.

#include "launcher/submit/job.h"

#include <algorithm>
#include <utility>

#include "common/files.h"
#include "common/quoting.h"
#include "common/text.h"
#include "container/image_name.h"
#include "launcher/executors/scrub.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/plan/render.h"
#include "launcher/runs/carried_spec.h"
#include "launcher/runs/log_file.h"
#include "launcher/submit/job_secrets.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {
namespace {

/// Returns the run's folder, escaped for an output pattern.
Result<std::string> folder_as_pattern(const std::filesystem::path& run) {
  const std::string path = run.string();
  if (std::any_of(path.begin(), path.end(), [](char c) { return c == '\\' || is_control(c); })) {
    return fail(Errc::kInvalid,
                "the run directory's path holds a character that sbatch's --output cannot express: "
                "{}; choose another runs folder with --runs",
                printable(path));
  }
  return escaped_for_sbatch_pattern(path);
}

/// Refuses:
/// - a script together with --set
/// - the script of a sweep's array
/// - a script with options with which sbatch would submit several jobs, submit nothing, wait, or
///   hide the run's variables from the job
/// - a script that carries a damaged spec.
Result<> check_script(const SpecOptions& options, std::string_view text) {
  if (!options.set_arguments.empty()) {
    return fail(Errc::kUsage, "{}: is a job script: --set changes keys of a spec; edit the script",
                printable(options.file));
  }
  if (is_array_script(text)) {
    return fail(
        Errc::kUsage,
        "{}: is the array of a sweep; dlrun makes the scripts of its tasks when the spec is "
        "submitted: submit the spec",
        printable(options.file));
  }
  if (auto refused = refused_option_messages(text); !refused.empty()) {
    for (std::string& one : refused) one = fmt::format("{}:{}", options.file, one);
    return fail(Errc::kUsage, "{}", join(refused, "\n"));
  }
  if (const auto fault = fault_of_carried_spec(text)) {
    return fail(Errc::kUsage,
                "{}:{}: the spec that the script carries cannot be read: {}. Render it again; or "
                "delete its last lines, which start with '#:' and '#|', to submit the script alone",
                printable(options.file), fault->line, fault->what);
  }
  return {};
}

Result<Job> job_of_script_file(const Context& context, Reporter& reporter,
                               const SpecOptions& options, std::string text) {
  DLRUN_TRY(check_script(options, text));
  ScriptRequests requests =
      parse_script_requests(text, std::filesystem::path(options.file).filename().string());
  if (requests.runs_dir.empty() || options.runs_dir) {
    DLRUN_TRY_ASSIGN(requests.runs_dir, runs_directory_here(context, reporter, options.runs_dir,
                                                            requests.clusters.value_or("")));
  }
  Job job = job_of_script_text(Job::Source::kScript, std::move(text), std::move(requests),
                               context.current_dir);
  job.file = options.file;
  const auto carried = carried_spec(job.script);
  if (!carried) return job;
  auto experiment = prepare_carried(context, *carried);
  if (!experiment) {
    Error error = std::move(experiment.error());
    error.message = fmt::format(
        "{}: this dlrun or this site refuses the spec that the script carries, and the script "
        "alone is not the whole job. Render it again; or delete its last lines, which start with "
        "'#:' "
        "and '#|', to submit the script alone",
        options.file);
    return tl::unexpected(std::move(error));
  }
  job.settings.server = experiment->plan.server;
  job.known_bad = experiment->plan.known_bad;
  job.image = image_in_script(*experiment, job.script);
  job.experiment = std::move(*experiment);
  return job;
}

}  // namespace

Job job_of_script_text(Job::Source source, std::string script, ScriptRequests requests,
                       const std::filesystem::path& submit_directory) {
  Job job;
  job.source = source;
  job.name = requests.name;
  job.runs_dir = requests.runs_dir;
  job.script = std::move(script);
  job.code_dir = start_folder(requests, submit_directory);
  job.settings.submit_directory = submit_directory;
  job.settings.clusters = requests.clusters;
  job.settings.comment = requests.comment;
  if (!requests.is_named) job.settings.job_name = requests.name;
  if (requests.chain_job_count > 0)
    job.settings.chain = ChainPosition{requests.chain_job_count, 0, "", ""};
  if (requests.output)
    job.settings.log_pattern = absolute_pattern(job.code_dir, *requests.output, requests.job_name);
  if (requests.error) {
    // With --error=none, in upper or lower case, sbatch discards the job's standard error. dlrun
    // does the same.
    const bool is_discarded = lower_case(*requests.error) == "none";
    job.settings.error_pattern =
        is_discarded ? "/dev/null"
                     : absolute_pattern(job.code_dir, *requests.error, requests.job_name);
  }
  job.requests = std::move(requests);
  return job;
}

Job job_of_experiment(Experiment experiment, std::string script) {
  const LaunchPlan& plan = experiment.plan;
  Job job = job_of_script_text(Job::Source::kSpec, std::move(script), requests_of_plan(plan),
                               plan.folder);
  job.file = experiment.loaded.file;
  job.settings.server = plan.server;
  job.known_bad = plan.known_bad;
  job.image = experiment.loaded.spec.container.image.value_or("");
  job.experiment = std::move(experiment);
  return job;
}

Result<Job> job_of_spec_file(const Context& context, Reporter& reporter,
                             const SpecOptions& options) {
  DLRUN_TRY_ASSIGN(auto experiment, prepare_experiment(context, reporter, options, Target::kSlurm));
  DLRUN_TRY_ASSIGN(auto script, render_script(experiment.plan));
  return job_of_experiment(std::move(experiment), std::move(script));
}

Result<std::optional<SweepPlan>> plan_arrays(const Context& context, Job& job, bool asks_slurm) {
  if (!job.is_sweep()) return std::optional<SweepPlan>();
  const auto size = asks_slurm ? max_array_size(context.env, job.settings.clusters.value_or(""))
                               : configured_max_array_size(context.env);
  DLRUN_TRY_ASSIGN(auto sweep, prepare_sweep(*job.experiment, size));
  job.script = sweep.arrays.front().script;
  job.settings.is_array = true;
  return std::optional(std::move(sweep));
}

Result<Job> job_of_file(const Context& context, Reporter& reporter, const SpecOptions& options) {
  const auto path = (context.current_dir / options.file).lexically_normal();
  if (auto text = read_file(path, kScriptLimitBytes); text && is_script(*text))
    return job_of_script_file(context, reporter, options, std::move(*text));
  return job_of_spec_file(context, reporter, options);
}

std::filesystem::path code_folder_of(const Context& context, const std::string& file) {
  if (const auto text = read_file(context.current_dir / file, kScriptLimitBytes);
      text && is_script(*text)) {
    if (const auto carried = carried_spec(*text)) return carried->folder;
  }
  return folder_of(context, file);
}

std::string image_in_script(const Experiment& experiment, std::string_view script) {
  const std::string image = experiment.loaded.spec.container.image.value_or("");
  if (is_unedited(script)) return image;
  const std::string text = without_carried_spec(script);
  const bool is_in_script = text.find(image) != std::string::npos ||
                            text.find(pyxis_image_name(image)) != std::string::npos;
  return is_in_script ? image : "";
}

Result<std::vector<std::string>> sbatch_arguments(const SbatchSettings& settings,
                                                  const std::filesystem::path& run,
                                                  const std::string& token) {
  std::vector<std::string> arguments = {"--comment=dlrun:" + token +
                                        (settings.comment ? " " + *settings.comment : "")};
  if (settings.job_name) arguments.push_back("--job-name=" + *settings.job_name);
  if (settings.chdir) arguments.push_back("--chdir=" + *settings.chdir);
  if (settings.array_tasks) arguments.push_back("--array=" + *settings.array_tasks);
  if (settings.dependency) arguments.push_back("--dependency=" + *settings.dependency);
  if (settings.is_cancelled_on_invalid_dependency) arguments.push_back("--kill-on-invalid-dep=yes");
  if (settings.exclude) arguments.push_back("--exclude=" + *settings.exclude);
  if (settings.clusters) arguments.push_back("--clusters=" + *settings.clusters);
  // With chdir, relative paths in the script's --error and --output would lead into the copy of the
  // code. These patterns are absolute.
  if (settings.error_pattern && settings.chdir)
    arguments.push_back("--error=" + *settings.error_pattern);
  if (settings.log_pattern) {
    if (settings.chdir) arguments.push_back("--output=" + *settings.log_pattern);
  } else {
    DLRUN_TRY_ASSIGN(const auto folder, folder_as_pattern(run));
    const bool is_follow_up = settings.chain && settings.chain->is_follow_up();
    arguments.push_back(fmt::format("--output={}/{}", folder,
                                    settings.is_packed  ? std::string("task-%a.out")
                                    : settings.is_array ? std::string("%a/slurm-%A_%a.out")
                                    : is_follow_up
                                        ? fmt::format("slurm-{}.out", settings.chain->first_job)
                                        : std::string("slurm-%j.out")));
  }
  return arguments;
}

Env job_environment(const Context& context, const std::filesystem::path& run,
                    const std::string& token, const std::vector<SecretValue>& secrets) {
  Env env = scrubbed_for_slurm(context.env, munge_is_available());
  unset_secrets(env, secrets);
  env.set("DLRUN_RUN", run.string());
  env.set("DLRUN_TOKEN", token);
  return env;
}

Result<SubmitRequest> request_to_submit(const Context& context, const SbatchSettings& settings,
                                        const std::filesystem::path& run, const std::string& token,
                                        std::string text) {
  DLRUN_TRY_ASSIGN(auto arguments, sbatch_arguments(settings, run, token));
  SubmitRequest request;
  request.script = run / "job.sh";
  request.script_text = std::move(text);
  request.options = std::move(arguments);
  request.directory = settings.submit_directory;
  request.env = job_environment(context, run, token, settings.secrets);
  if (settings.chain) {
    request.env.set("DLRUN_CHAIN", fmt::format("{}", settings.chain->number));
    if (settings.chain->is_follow_up()) request.env.set("DLRUN_TOKEN", settings.chain->run_token);
  }
  return request;
}

std::map<std::string, std::string> keys_of_options(const Job& job) {
  std::map<std::string, std::string> keys;
  if (!job.experiment) return keys;
  for (const PlannedOption& directive : job.experiment->plan.directives) {
    if (directive.comment == "slurm") {
      keys[directive.option] = "slurm." + directive.option.substr(2);
    } else if (!directive.comment.empty()) {
      keys[directive.option] = directive.comment;
    }
  }
  return keys;
}

SubmitRequest request_to_test(const Context& context, const SbatchSettings& settings,
                              std::string script) {
  SubmitRequest request;
  request.script_text = std::move(script);
  if (settings.clusters) request.options = {"--clusters=" + *settings.clusters};
  if (settings.dependency) request.options.push_back("--dependency=" + *settings.dependency);
  if (settings.exclude) request.options.push_back("--exclude=" + *settings.exclude);
  request.directory = settings.submit_directory;
  request.env = scrubbed_for_slurm(context.env, munge_is_available());
  unset_secrets(request.env, settings.secrets);
  return request;
}

}  // namespace dlrun
