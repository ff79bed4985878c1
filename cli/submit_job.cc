#include "cli/submit_job.h"

#include <nlohmann/json.hpp>

#include "cli/dependencies.h"
#include "cli/downloads.h"
#include "cli/expectations.h"
#include "cli/interrupt.h"
#include "cli/recording.h"
#include "cli/report.h"
#include "cli/script_file.h"
#include "cli/secrets.h"
#include "cli/terminal/json_or_null.h"
#include "cli/terminal/print.h"
#include "cli/terminal/words.h"
#include "cli/watch.h"
#include "common/files.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "container/image_name.h"
#include "launcher/plan/render.h"
#include "launcher/plan/script_request.h"
#include "launcher/runs/carried_spec.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/sweep.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

std::optional<std::string> value_of(const LaunchPlan& plan, std::string_view option) {
  for (const auto& directive : plan.directives) {
    if (directive.option == option) return directive.value;
  }
  return std::nullopt;
}

/// Returns the limits of the partition that the script names, edited or not.
std::string partition_of(const Job& job) {
  if (!job.prepared) return "";
  return partition_text(job.prepared->loaded.site,
                        sbatch_value(job.script, "--partition", "-p").value_or(""));
}

void tell(const Cli& cli, const Job& job, const RunDirectory& run, const Submission& submission,
          bool json) {
  if (json) {
    const auto report = glance(cli, submission);
    Json out;
    out["run"] = run.id;
    out["name"] = run.name;
    out["path"] = run.path.string();
    out["job"] = submission.job.id;
    out["cluster"] = submission.job.cluster.empty() ? Json(nullptr) : Json(submission.job.cluster);
    RunFacts facts;
    facts.submission = submission;
    out["log"] = text_or_null(job_log(run.path, facts).value_or("").string());
    out["start"] = report && !report->start.empty() ? Json(report->start) : Json(nullptr);
    out["gpu_hours"] = value_or_null(gpu_hours(job.requested));
    out["core_hours"] = value_or_null(core_hours(job.requested));
    print_json(out);
    return;
  }
  print(cli, "{} {} as job {}{}\n", styled(Style::kGreen, "submitted"),
        styled(Style::kBold, run.id), submission.job.id,
        submission.job.cluster.empty() ? "" : " on " + submission.job.cluster);
  flush_output();  // before Slurm is asked again, which may take time
  const auto report = glance(cli, submission);
  if (report) print(cli, "  start      {}\n", start_text(*report));
  if (const auto hours = cost(job.requested); !hours.empty())
    print(cli, "  cost       {}\n", hours);
  if (const auto limits = partition_of(job); !limits.empty())
    print(cli, "  partition  {}\n", limits);
  print(cli, "  directory  {}\n", run.path.string());
  print(cli, "  follow     dlrun logs -f {0}\n  state      dlrun status {0}\n", run.handle());
  flush_output();
  if (const auto never = report ? never_text(*report) : ""; !never.empty())
    print_warning(cli, fmt::format("{}, `dlrun cancel {}` takes it back", never, run.handle()));
}

Result<RunDirectory> record(const Cli& cli, const Job& job) {
  if (job.of_run) return record_again(cli, job.runs_dir, job.name, *job.of_run);
  if (!job.is_script) return record_run(cli, *job.prepared, job.script);
  return record_script(cli, job.runs_dir, job.name, job.script,
                       job.prepared ? &*job.prepared : nullptr);
}

}  // namespace

Result<int> watch_to_the_end(const Cli& cli, RunInspector& inspector, const IndexEntry& run,
                             const std::string& job, bool json) {
  const Interrupt interrupt;
  WatchOptions watch;
  watch.print_log = !json && !is_sweep(run.path);
  const auto status = watch_run(cli, inspector, run, watch, interrupt);
  if (!status && status.error().code == Errc::kInterrupted) {
    const bool has_points = is_sweep(run.path);
    print_note(
        cli,
        fmt::format("stopped watching; job {} goes on. `dlrun {} {}` {}, `dlrun cancel {}` ends it",
                    job, has_points ? "sweep" : "logs -f", run.id,
                    has_points ? "tells how it goes" : "follows it again", run.id));
    return kExitInterrupted;
  }
  if (!status) return tl::unexpected(status.error());
  if (json) print_json(status_json(run, *status));
  return tell_end(cli, run, *status);
}

namespace {

/// Runs the checks that precede recording, so that a refused submission leaves no files.
Result<> check_before_recording(const Cli& cli, const Job& job, Executor& executor) {
  auto request =
      submit_request(cli, std::filesystem::path(job.runs_dir) / job.name, "TOKEN", job.submit);
  if (!request) return tl::unexpected(request.error());
  request->script_text = job.script;
  return executor.check(*request);
}

Result<Job> job_of_script(const Cli& cli, const SpecOptions& options, std::string text) {
  if (!options.sets.empty()) {
    return fail(Errc::kUsage, "{}: is a job script: --set changes keys of a spec; edit the script",
                options.file);
  }
  if (is_array_script(text)) {
    return fail(Errc::kUsage,
                "{}: is the array of a sweep; what its tasks do is made when the spec is "
                "submitted: submit that",
                options.file);
  }
  if (auto refused = refusals_of(text); !refused.empty()) {
    for (std::string& one : refused) one = fmt::format("{}:{}", options.file, one);
    return fail(Errc::kUsage, "{}", join(refused, "\n"));
  }
  if (const auto fault = fault_of_carried(text)) {
    return fail(Errc::kUsage,
                "{}:{}: the spec that the script carries cannot be read: {}. Render it anew; or "
                "delete its last lines, "
                "which start with '#:' and '#|', to submit the script alone",
                options.file, fault->line, fault->what);
  }
  Job job;
  job.is_script = true;
  job.file = options.file;
  const ScriptFile script =
      read_script(text, std::filesystem::path(options.file).filename().string());
  job.name = script.name;
  job.runs_dir = script.runs_dir;
  if (job.runs_dir.empty() || options.runs) {
    auto runs =
        runs_directory_here(cli, options.runs, sbatch_value(text, "--clusters", "-M").value_or(""));
    if (!runs) return tl::unexpected(runs.error());
    job.runs_dir = std::move(*runs);
  }
  job.script = std::move(text);
  job.requested = requested_of_script(job.script);
  if (const auto carried = carried_spec(job.script)) {
    auto prepared = prepare_carried(cli, *carried);
    if (!prepared) {
      return fail(prepared.error().code,
                  "{}: carries a spec that this dlrun or this site refuses, so what it says beyond "
                  "the script's own "
                  "lines would be lost. Render it anew; or delete its last lines, which start with "
                  "'#:' and '#|', to "
                  "submit the script alone",
                  options.file);
    }
    job.submit.server = prepared->plan.server;
    job.prepared = std::move(*prepared);
  }
  job.source_dir = starts_in(job.script, cli.current_dir);
  job.submit.clusters = sbatch_value(job.script, "--clusters", "-M");
  job.submit.directory = cli.current_dir;
  if (script.output)
    job.submit.log_pattern = absolute_pattern(job.source_dir, *script.output, script.job_name);
  job.submit.comment = sbatch_value(job.script, "--comment", "--comment");
  if (!script.is_named) job.submit.job_name = script.name;
  auto secrets = secrets_of_script(
      cli, job.script, job.prepared ? job.prepared->plan.secrets : std::vector<SecretSource>());
  if (!secrets) return tl::unexpected(secrets.error());
  job.submit.secrets = std::move(*secrets);
  return job;
}

}  // namespace

Result<Job> make_job(const Cli& cli, const SpecOptions& options) {
  const auto path = (cli.current_dir / options.file).lexically_normal();
  if (auto text = read_file(path, kScriptLimitBytes); text && is_script(*text))
    return job_of_script(cli, options, std::move(*text));
  auto prepared = prepare(cli, options, Target::kSlurm);
  if (!prepared) return tl::unexpected(prepared.error());
  auto script = render_script(prepared->plan);
  if (!script) return tl::unexpected(script.error());
  const LaunchPlan& plan = prepared->plan;
  Job job;
  job.name = plan.name;
  job.runs_dir = plan.runs_dir;
  job.script = std::move(*script);
  job.requested = plan.requested;
  job.submit.server = plan.server;
  job.submit.clusters = plan.clusters;
  job.submit.directory = plan.folder;
  job.source_dir = plan.folder;
  job.submit.comment = value_of(plan, "--comment");
  auto secrets = secrets_of_spec(cli, prepared->loaded);
  if (!secrets) return tl::unexpected(secrets.error());
  job.submit.secrets = std::move(*secrets);
  if (const auto output = value_of(plan, "--output"); output && plan.output_given)
    job.submit.log_pattern = absolute_pattern(plan.folder, *output, value_of(plan, "--job-name"));
  job.prepared = std::move(*prepared);
  return job;
}

Result<std::optional<Prepared>> plan_beside_script(const Cli& cli, const std::filesystem::path& run,
                                                   std::string_view script) {
  constexpr std::size_t kLimit = 16U << 20U;
  const auto file = run / "resolved.yaml";
  auto text = read_untrusted(file, kLimit, Links::kRefuse);
  if (!text && text.error().code == Errc::kNotFound)
    return std::optional<Prepared>();  // the script was written by hand
  if (!text) return tl::unexpected(text.error());
  const bool has_secrets = script.find("--secret ") != std::string_view::npos;
  const bool waits = text->starts_with("after:") || text->find("\nafter:") != std::string::npos;
  const bool downloads = text->find("\n    download: ") != std::string::npos;  // in train.data
  if (!has_secrets && !waits && !downloads) return std::optional<Prepared>();
  PlanInputs inputs;
  inputs.runs_dir = run.parent_path().string();
  inputs.agent_path = cli.bin_dir / "dlrun-agent";
  inputs.trainer_path = cli.bin_dir / "dlrun-trainer";
  inputs.target = Target::kSlurm;
  auto prepared = prepare_again(cli, file.string(), std::move(*text), inputs);
  if (prepared) return std::optional(std::move(*prepared));
  return fail(prepared.error().code,
              "{}: this dlrun or this site refuses the spec, which says what its script does not: "
              "the runs that the job "
              "waits for, the files of its secrets, those that it downloads. `dlrun submit` of the "
              "corrected file submits it",
              file.string());
}

Result<std::optional<std::string>> wait_of(const Cli& cli, RunInspector& inspector,
                                           const Prepared& prepared, const Job& job) {
  LaunchPlan plan = prepared.plan;
  plan.clusters = job.submit.clusters;
  std::optional<std::string> edited;
  if (job.is_script) edited = sbatch_value(job.script, "--dependency", "-d").value_or("");
  return dependency_of(cli, inspector, prepared.loaded, plan, edited);
}

LogFolders log_folders_of(const Job& job) {
  const LoadedSpec* spec = job.is_script ? nullptr : &job.prepared->loaded;
  return find_log_folders({job.script, job.source_dir, job.file, spec,
                           job.submit.log_pattern.has_value(), job.submit.job_name.value_or("")});
}

std::filesystem::path source_folder(const Cli& cli, const std::string& file) {
  if (const auto text = read_file(cli.current_dir / file, kScriptLimitBytes);
      text && is_script(*text)) {
    if (const auto carried = carried_spec(*text)) return carried->folder;
  }
  return folder_of(cli, file);
}

std::string image_of(const Job& job) {
  const std::string image =
      job.prepared ? job.prepared->loaded.spec.container.image.value_or("") : "";
  const std::string text = job.is_script ? without_carried(job.script) : "";
  const bool is_named = !job.is_script || text.find(image) != std::string::npos ||
                        text.find(pyxis_image(image)) != std::string::npos;
  return is_named ? image : "";
}

Result<int> submit_job(const Cli& cli, const Job& job, Provenance& provenance,
                       RunInspector& inspector, const Follow& follow,
                       const OnSubmitted& on_submitted) {
  Executor& executor = inspector.executor_of(job.submit.server);
  DLRUN_TRY(check_before_recording(cli, job, executor));
  const LogFolders logs = log_folders_of(job);
  DLRUN_TRY(check_log_folders(cli, logs));
  if (job.prepared) DLRUN_TRY(fetch_downloads(cli, job.prepared->loaded));
  const bool is_agentless = job.prepared && job.prepared->plan.agent.empty();
  if (!is_agentless) DLRUN_TRY(stage(cli, job.runs_dir));
  const auto run = record(cli, job);
  if (!run) return tl::unexpected(run.error());
  DLRUN_TRY(make_log_folders(logs));
  SubmitPlan submit = job.submit;
  if (job.prepared && job.prepared->plan.snapshot) {
    auto snapshot = snapshot_for(cli, job.source_dir, job.runs_dir, *run);
    if (!snapshot) return tl::unexpected(snapshot.error());
    submit.chdir = std::move(*snapshot);
  }
  const auto outcome = submit_once(cli, *run, submit, executor);
  provenance.set_image(image_of(job));
  if (auto written = provenance.write(run->path); !written) {
    print_warning(
        cli, fmt::format("where the run came from is not recorded: {}", written.error().message));
  }
  if (!outcome) return tl::unexpected(outcome.error());
  if (on_submitted) DLRUN_TRY(on_submitted(*run));
  const JobId& queued = outcome->submission.job;
  DLRUN_TRY(print_or_say(
      [&] { tell(cli, job, *run, outcome->submission, follow.json); },
      fmt::format("the run {} is submitted, as job {}{}; `dlrun status {}` tells of it", run->id,
                  queued.id, queued.cluster.empty() ? "" : " on " + queued.cluster,
                  run->handle())));
  if (outcome->interrupted) {
    print_note(cli,
               fmt::format("interrupted, but Slurm has taken the job; `dlrun cancel {}` ends it",
                           run->id));
    return kExitInterrupted;
  }
  if (!follow.watch) return kExitOk;
  return watch_to_the_end(cli, inspector, {run->id, run->name, run->path, run->created},
                          outcome->submission.job.id, follow.json);
}

}  // namespace dlrun
