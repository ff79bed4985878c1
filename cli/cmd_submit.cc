// `dlrun submit`: checks, plans, renders, records and submits once; with --watch, follows the run
// to its end.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/dependencies.h"
#include "cli/known_bad.h"
#include "cli/prepare.h"
#include "cli/report.h"
#include "cli/secrets.h"
#include "cli/slurm_options.h"
#include "cli/submit_job.h"
#include "cli/sweep.h"
#include "cli/terminal/json_or_null.h"
#include "cli/terminal/print.h"
#include "cli/terminal/words.h"
#include "common/quoting.h"
#include "launcher/executors/scrub.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/runs/run_directory.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  SpecOptions spec;
  bool json = false, dry_run = false, test_only = false, watch = false;
};

/// Prints what --dry-run would submit; for a sweep its first array. sweep: nullptr for a
/// single job.
Result<int> show_what_would_be_done(const Cli& cli, const Job& job, const SweepPlan* sweep,
                                    bool json) {
  const auto run = std::filesystem::path(job.runs_dir) / (job.name + "-YYYYMMDD-HHMMSS-xxxx");
  const auto words = sbatch_words(run, "TOKEN", job.submit);
  if (!words) return tl::unexpected(words.error());
  if (json) {
    Json out;
    out["run"] = nullptr;
    out["runs_dir"] = job.runs_dir;
    out["sbatch"] = *words;
    out["slurmrestd"] = job.submit.server ? Json(job.submit.server->url) : Json(nullptr);
    out["gpu_hours"] =
        value_or_null(sweep ? sum_of_hours(*sweep, gpu_hours) : gpu_hours(job.requested));
    out["core_hours"] =
        value_or_null(sweep ? sum_of_hours(*sweep, core_hours) : core_hours(job.requested));
    if (sweep) out["points"] = sweep->points.size();
    if (sweep) out["arrays"] = sweep->arrays.size();
    out["script"] = job.script;
    print_json(out);
    return kExitOk;
  }
  print_document(job.script);
  const std::string how = job.submit.server
                              ? "ask slurmrestd at " + job.submit.server->url + " for what sbatch"
                              : "call sbatch --parsable";
  print_note(cli,
             fmt::format("would make {} and {} {} {}{}", run.string(), how, shell_quote_all(*words),
                         (run / "job.sh").string(), job.submit.server ? " does" : ""));
  if (sweep) print_note(cli, size_text(*sweep));
  if (const auto hours = cost(job.requested); !sweep && !hours.empty()) print_note(cli, hours);
  print_note(cli, "nothing was written or submitted (--dry-run)");
  return kExitOk;
}

Result<int> ask_slurm(const Cli& cli, const Job& job, Executor& slurm, bool json) {
  SubmitRequest request;
  request.script_text = job.script;
  if (job.submit.clusters) request.options = {"--clusters=" + *job.submit.clusters};
  if (job.submit.dependency) request.options.push_back("--dependency=" + *job.submit.dependency);
  if (job.submit.exclude) request.options.push_back("--exclude=" + *job.submit.exclude);
  request.directory = job.submit.directory;
  request.env = scrubbed_for_slurm(cli.env, munge_is_available());
  hide_secrets(request.env, job.submit.secrets);
  const auto words = slurm.test(request);
  if (!words) return tl::unexpected(words.error());
  if (json) {
    Json out;
    out["run"] = nullptr;
    out["name"] = job.name;
    out["slurm"] = *words;
    out["gpu_hours"] = value_or_null(gpu_hours(job.requested));
    out["core_hours"] = value_or_null(core_hours(job.requested));
    print_json(out);
  } else {
    print(cli, "{}\n", *words);
  }
  return kExitOk;
}

/// Notes that the resolved spec of an earlier run names the source tree, not that run's copy of it.
void tell_of_copy(const Cli& cli, const Job& job, const std::string& file) {
  if (job.is_script || !job.prepared->plan.snapshot) return;
  const auto run = (cli.current_dir / file).lexically_normal().parent_path();
  std::error_code error;
  if (!is_run_directory(run) || !std::filesystem::is_directory(run / "code", error)) return;
  print_note(
      cli,
      fmt::format(
          "code.snapshot: a new copy of {} as it is now; `dlrun resubmit {}` runs the copy that "
          "this run has",
          job.source_dir.string(), run.filename().string()));
}

Result<int> submit(Cli& cli, const Options& options) {
  if (options.dry_run && (options.test_only || options.watch)) {
    return fail(Errc::kUsage,
                "--dry-run submits nothing: it goes with neither --test-only nor --watch");
  }
  // git inspects the code in the background while dlrun plans and sbatch works.
  Provenance provenance(source_folder(cli, options.spec.file), cli.env, cli.argv, cli.tools.hash);
  auto job = make_job(cli, options.spec);
  if (!job) return tl::unexpected(job.error());
  if (job->prepared && !job->is_script && !options.dry_run)
    DLRUN_TRY(check_slurm_options(cli, job->prepared->loaded));
  RunInspector inspector(cli.env, known_servers(cli));
  if (job->prepared) {
    pin_runs(cli, job->prepared->loaded, job->prepared->plan);
    auto dependency = wait_of(cli, inspector, *job->prepared, *job);
    if (!dependency) return tl::unexpected(dependency.error());
    job->submit.dependency = std::move(*dependency);
    job->submit.exclude =
        exclude_known_bad(cli, job->prepared->plan.known_bad, job->script, job->submit.clusters,
                          !options.dry_run && !job->submit.server);
  }
  if (job->prepared && job->prepared->is_sweep()) {
    const Prepared& prepared = *job->prepared;
    if (options.dry_run || options.test_only) {
      const auto size = options.test_only
                            ? max_array_size(cli.env, job->submit.clusters.value_or(""))
                            : configured_array_size(cli.env);
      const auto sweep = prepare_sweep(cli, prepared, size);
      if (!sweep) return tl::unexpected(sweep.error());
      job->script = sweep->arrays.front().script;
      job->submit.is_array = true;
      if (options.test_only)
        return ask_slurm(cli, *job, inspector.executor_of(job->submit.server), options.json);
      return show_what_would_be_done(cli, *job, &*sweep, options.json);
    }
    print_diagnostics(cli, preflight(cli, prepared.loaded));
    return submit_sweep(cli, prepared, job->submit, provenance, inspector,
                        {options.watch, options.json});
  }
  if (options.dry_run) return show_what_would_be_done(cli, *job, nullptr, options.json);
  if (job->prepared) {
    print_diagnostics(cli, preflight(cli, job->prepared->loaded));
    tell_of_copy(cli, *job, options.spec.file);
  }
  if (options.test_only) {
    DLRUN_TRY(check_log_folders(cli, log_folders_of(*job)));
    return ask_slurm(cli, *job, inspector.executor_of(job->submit.server), options.json);
  }
  return submit_job(cli, *job, provenance, inspector, {options.watch, options.json});
}

}  // namespace

void add_submit(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(root, "submit",
                     "Check, render, record and submit an experiment or a job script");
  add_spec_options(command, options->spec);
  command.flag("--watch", options->watch,
               "Follow the log until the job ends; exit with 0, or with 5 if the run failed");
  command.flag("--dry-run", options->dry_run,
               "Print what dlrun would do; write and submit nothing");
  command.flag("--test-only", options->test_only,
               "Ask Slurm whether and when the job would run; submit nothing");
  command.flag("--json", options->json, "Print a JSON object");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return submit(cli, *options); }; });
}

}  // namespace dlrun
