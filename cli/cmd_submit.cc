// dlrun submit: check, plan, render, record, submit once; then, with --watch, follow to the end.

#include <cstdio>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/prepare.h"
#include "cli/recording.h"
#include "cli/report.h"
#include "cli/script_file.h"
#include "cli/submission.h"
#include "cli/watch.h"
#include "common/files.h"
#include "common/quoting.h"
#include "launcher/executors/scrub.h"
#include "launcher/plan/render.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/provenance.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  SpecOptions spec;
  bool json = false, dry_run = false, test_only = false, watch = false;
};

std::optional<std::string> value_of(const LaunchPlan& plan, std::string_view option) {
  for (const auto& directive : plan.directives) {
    if (directive.option == option) return directive.value;
  }
  return std::nullopt;
}

/// What is submitted, whether it comes from a spec or is a script already.
struct Job {
  std::string name, runs_dir, script;
  Requested requested;
  SubmitPlan submit;
  std::optional<Prepared> prepared;  ///< nothing for a script
};

/// A spec is planned and rendered; a script is taken as it is.
Result<Job> make_job(const Cli& cli, const Options& options) {
  Job job;
  constexpr std::size_t kScriptLimit = 4U << 20U;  // Slurm's own default limit
  const auto path = (cli.current_dir / options.spec.file).lexically_normal();
  if (auto text = read_file(path, kScriptLimit); text && is_script(*text)) {
    if (!options.spec.sets.empty()) {
      return fail(Errc::kUsage, "{}: is a job script: --set changes keys of a spec; edit the script",
                  options.spec.file);
    }
    const ScriptFile script = read_script(*text, path.filename().string());
    job.name = script.name;
    job.runs_dir = script.runs_dir;
    if (job.runs_dir.empty() || options.spec.runs) {
      job.runs_dir = runs_directory(options.spec.runs, cli.env, SiteProfile{}, cli.current_dir);
    }
    job.script = std::move(*text);
    job.submit.clusters = sbatch_value(job.script, "--clusters", "-M");
    job.submit.log_pattern = script.output;
    job.submit.directory = cli.current_dir;
    job.submit.comment = sbatch_value(job.script, "--comment", "--comment");
    return job;
  }
  auto prepared = prepare(cli, options.spec, Target::kSlurm);
  if (!prepared) return tl::unexpected(prepared.error());
  auto script = render_script(prepared->plan);
  if (!script) return tl::unexpected(script.error());
  const LaunchPlan& plan = prepared->plan;
  job.name = plan.name;
  job.runs_dir = plan.runs_dir;
  job.script = std::move(*script);
  job.requested = plan.requested;
  job.submit.clusters = plan.clusters;
  job.submit.directory = plan.folder;
  job.submit.comment = value_of(plan, "--comment");
  if (plan.output_given) job.submit.log_pattern = value_of(plan, "--output");
  job.prepared = std::move(*prepared);
  return job;
}

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Result<int> show_what_would_be_done(const Cli& cli, const Job& job, bool json) {
  const auto run = std::filesystem::path(job.runs_dir) / (job.name + "-YYYYMMDD-HHMMSS-xxxx");
  const auto words = sbatch_words(run, "TOKEN", job.submit);
  if (!words) return tl::unexpected(words.error());
  if (json) {
    Json out;
    out["run"] = nullptr;
    out["runs_dir"] = job.runs_dir;
    out["sbatch"] = *words;
    out["gpu_hours"] = number_or_null(gpu_hours(job.requested));
    out["core_hours"] = number_or_null(core_hours(job.requested));
    out["script"] = job.script;
    print_json(out);
    return kExitOk;
  }
  fmt::print("{}", job.script);
  print_note(cli, fmt::format("would make {} and call sbatch --parsable {} {}", run.string(), shell_quote_all(*words),
                              (run / "job.sh").string()));
  if (const auto hours = cost(job.requested); !hours.empty()) print_note(cli, hours);
  print_note(cli, "nothing was written or submitted (--dry-run)");
  return kExitOk;
}

Result<int> ask_slurm(const Cli& cli, const Job& job, Executor& slurm) {
  SubmitRequest request;
  request.script_text = job.script;
  if (job.submit.clusters) request.options = {"--clusters=" + *job.submit.clusters};
  request.directory = job.submit.directory;
  request.env = scrubbed_for_slurm(cli.env, munge_is_available());
  const auto words = slurm.test(request);
  if (!words) return tl::unexpected(words.error());
  fmt::print("{}\n", *words);
  return kExitOk;
}

void tell(const Cli& cli, const Job& job, const RunDirectory& run, const Submission& submission, bool json) {
  if (json) {
    Json out;
    out["run"] = run.id;
    out["name"] = run.name;
    out["path"] = run.path.string();
    out["job"] = submission.job.id;
    out["cluster"] = submission.job.cluster.empty() ? Json(nullptr) : Json(submission.job.cluster);
    RunFacts facts;
    facts.submission = submission;
    out["log"] = job_log(run.path, facts).value_or("").string();
    out["gpu_hours"] = number_or_null(gpu_hours(job.requested));
    out["core_hours"] = number_or_null(core_hours(job.requested));
    print_json(out);
    return;
  }
  fmt::print("{} {} as job {}{}\n", paint(cli.colour_out, Colour::kGreen, "submitted"),
             paint(cli.colour_out, Colour::kBold, run.id), submission.job.id,
             submission.job.cluster.empty() ? "" : " on " + submission.job.cluster);
  if (const auto hours = cost(job.requested); !hours.empty()) fmt::print("  cost       {}\n", hours);
  fmt::print("  directory  {}\n", run.path.string());
  fmt::print("  follow     dlrun logs -f {0}\n  state      dlrun status {0}\n", run.id);
  std::fflush(stdout);
}

/// Follows a job that was submitted to its end.
Result<int> watch_to_the_end(const Cli& cli, RunInspector& inspector, const IndexEntry& run, const std::string& job,
                             bool json) {
  const Interrupt interrupt;
  WatchOptions watch;
  watch.print_log = !json;
  const auto status = watch_run(cli, inspector, run, watch, interrupt);
  if (!status && status.error().code == Errc::kInterrupted) {
    print_note(
        cli,
        fmt::format("stopped watching; job {} goes on. `dlrun logs -f {}` follows it again, `dlrun cancel {}` ends it",
                    job, run.id, run.id));
    return kExitInterrupted;
  }
  if (!status) return tl::unexpected(status.error());
  if (json) print_json(status_json(run, *status));
  return tell_end(cli, run, *status);
}

Result<int> submit(Cli& cli, const Options& options) {
  if (options.dry_run && (options.test_only || options.watch)) {
    return fail(Errc::kUsage, "--dry-run submits nothing: it goes with neither --test-only nor --watch");
  }
  // git looks at the code while we plan and sbatch does its work.
  Provenance provenance(folder_of(cli, options.spec.file), cli.env, cli.argv, cli.tools.hash);
  const auto job = make_job(cli, options);
  if (!job) return tl::unexpected(job.error());
  if (options.dry_run) return show_what_would_be_done(cli, *job, options.json);
  if (job->prepared) print_diagnostics(cli, check_files(job->prepared->loaded));
  RunInspector inspector(cli.env);
  Executor& slurm = inspector.executor_of(JobId{});
  if (options.test_only) return ask_slurm(cli, *job, slurm);

  DLRUN_TRY(stage(cli, job->runs_dir));
  const auto run = job->prepared ? record_run(cli, *job->prepared, job->script)
                                 : record_script(cli, job->runs_dir, job->name, job->script);
  if (!run) return tl::unexpected(run.error());
  const auto outcome = submit_once(cli, *run, job->submit, slurm);
  if (auto written = provenance.write(run->path); !written) {
    print_warning(cli, fmt::format("where the run came from is not recorded: {}", written.error().message));
  }
  if (!outcome) return tl::unexpected(outcome.error());
  tell(cli, *job, *run, outcome->submission, options.json);
  if (outcome->interrupted) {
    print_note(cli, fmt::format("interrupted, but Slurm has taken the job; `dlrun cancel {}` ends it", run->id));
    return kExitInterrupted;
  }
  if (!options.watch) return kExitOk;
  return watch_to_the_end(cli, inspector, {run->id, run->name, run->path, run->created}, outcome->submission.job.id,
                          options.json);
}

}  // namespace

void add_submit(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = root.add_subcommand("submit", "Check, render, record and submit an experiment, or a job script");
  add_spec_options(*command, options->spec);
  command->add_flag("--watch", options->watch, "Follow the log until the job ends; exit with 0 or 5");
  command->add_flag("--dry-run", options->dry_run, "Print what would be done; write and submit nothing");
  command->add_flag("--test-only", options->test_only, "Ask Slurm whether and when it would run; submit nothing");
  command->add_flag("--json", options->json, "Print a JSON object");
  command->callback([options, &action] { action = [options](Cli& cli) { return submit(cli, *options); }; });
}

}  // namespace dlrun
