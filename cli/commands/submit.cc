// `dlrun submit`: checks, plans, renders, records and submits once; with --watch, follows the run
// to its end.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/allocation_command.h"
#include "cli/command_line.h"
#include "cli/remote_side.h"
#include "cli/spec_options.h"
#include "cli/submission_output.h"
#include "cli/terminal/print.h"
#include "cli/terminal/state_and_cost.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/json_or_null.h"
#include "common/quoting.h"
#include "launcher/submit/check_report.h"
#include "launcher/submit/search.h"
#include "launcher/submit/submitting.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

struct SubmitOptions {
  SpecOptions spec;
  bool json = false, dry_run = false, test_only = false, watch = false;
  std::optional<std::string> in;
};

/// Prints the job that dlrun would submit without --dry-run; for a sweep, its first array. sweep:
/// nullptr for a single job.
Result<int> show_dry_run(const Cli& cli, const Job& job, const SweepPlan* sweep, bool json) {
  const auto run = std::filesystem::path(job.runs_dir) / (job.name + "-YYYYMMDD-HHMMSS-xxxx");
  DLRUN_TRY_ASSIGN(const auto words, sbatch_arguments(job.settings, run, "TOKEN"));
  if (json) {
    Json out;
    out["run"] = nullptr;
    out["runs_dir"] = job.runs_dir;
    out["sbatch"] = words;
    out["slurmrestd"] = job.settings.server ? Json(job.settings.server->url) : Json(nullptr);
    out["gpu_hours"] =
        value_or_null(sweep ? sum_of_hours(*sweep, gpu_hours) : gpu_hours(job.requests.requested));
    out["core_hours"] = value_or_null(sweep ? sum_of_hours(*sweep, core_hours)
                                            : core_hours(job.requests.requested));
    if (sweep) out["points"] = sweep->points.size();
    if (sweep) out["arrays"] = sweep->arrays.size();
    out["script"] = job.script;
    print_json(out);
    return kExitOk;
  }
  print_document(job.script);
  const std::string how = job.settings.server
                              ? "submit through slurmrestd at " + job.settings.server->url +
                                    ", with the settings of sbatch"
                              : "call sbatch --parsable";
  print_note(cli, fmt::format("would make {} and {} {} {}", run.string(), how,
                              shell_quote_all(words), (run / "job.sh").string()));
  if (sweep) print_note(cli, points_and_cost_text(*sweep));
  if (const auto hours = cost_text(job.requests.requested); !sweep && !hours.empty())
    print_note(cli, hours);
  print_note(cli, "nothing was written or submitted (--dry-run)");
  return kExitOk;
}

/// Prints Slurm's verdict on the job.
Result<int> show_verdict(const Cli& cli, RunInspector& inspector, const Job& job, bool json) {
  DLRUN_TRY_ASSIGN(const auto words, ask_slurm(cli, inspector, job, job.script));
  if (json) {
    Json out;
    out["run"] = nullptr;
    out["name"] = job.name;
    out["slurm"] = words;
    out["gpu_hours"] = value_or_null(gpu_hours(job.requests.requested));
    out["core_hours"] = value_or_null(core_hours(job.requests.requested));
    print_json(out);
  } else {
    print(cli, "{}\n", words);
  }
  return kExitOk;
}

/// Returns true if a search program chooses the points of the job's sweep.
bool is_search(const Job& job) {
  return job.is_sweep() && job.experiment->loaded.spec.sweep.is_search();
}

/// Runs the search of a sweep with sweep.ask and prints its result.
Result<int> search(Cli& cli, const SubmitOptions& options, Job job, Provenance& provenance) {
  if (options.watch)
    return fail(Errc::kUsage,
                "--watch: not needed, because dlrun follows a sweep with sweep.ask anyway");
  TerminalReporter reporter(cli);
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(const auto searched,
                   run_search(cli, reporter, inspector, std::move(job), provenance));
  if (options.json) {
    Json out;
    out["run"] = searched.run.id;
    out["name"] = searched.run.name;
    out["path"] = searched.run.path.string();
    out["points"] = searched.points;
    print_json(out);
  } else {
    print(cli, "{} {}: {} points; `dlrun sweep {}` lists them\n", styled(Style::kGreen, "searched"),
          styled(Style::kBold, searched.run.id), searched.points, searched.run.handle());
  }
  return kExitOk;
}

/// Starts the spec in the allocation of another job.
Result<int> submit_into(Cli& cli, const SubmitOptions& options) {
  if (options.test_only)
    return fail(Errc::kUsage, "--test-only: Slurm does not queue a run in an allocation (--in)");
  DLRUN_TRY_ASSIGN(const auto claim, take_claim(cli.env));
  if (claim)
    return fail(Errc::kUsage,
                "--in: a cut connection could start the run a second time; log in to the host, and "
                "start it there");
  AllocationRun run;
  run.spec = options.spec;
  run.job = *options.in;
  run.json = options.json;
  run.dry_run = options.dry_run;
  run.watch = options.watch;
  return run_in_allocation(cli, run);
}

Result<int> submit(Cli& cli, const SubmitOptions& options) {
  if (options.dry_run && (options.test_only || options.watch)) {
    return fail(Errc::kUsage,
                "--dry-run submits nothing; it cannot be combined with --test-only or --watch");
  }
  if (options.in) return submit_into(cli, options);
  // The code of a call over ssh has no .git; the caller has sent its state. No job inherits the
  // name.
  const std::string git_state = cli.env.get_or(kGitStateVariable, "");
  cli.env.unset(kGitStateVariable);
  // git inspects the code in the background while dlrun plans and calls sbatch.
  Provenance provenance(source_folder(cli, options.spec.file), cli.env, cli.argv, cli.tools.hash,
                        git_state);
  TerminalReporter reporter(cli);
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(auto claim, take_claim(cli.env));
  if (claim) {
    DLRUN_TRY_ASSIGN(const auto earlier, earlier_submission(cli, reporter, inspector, *claim));
    if (earlier) {
      claim.reset();
      return print_submitted(cli, inspector, *earlier, {options.watch, options.json});
    }
  }
  DLRUN_TRY_ASSIGN(auto job, make_job(cli, reporter, options.spec));
  DLRUN_TRY_ASSIGN(auto sweep, plan_arrays(cli, job, !options.dry_run));
  const SweepPlan* arrays = sweep ? &*sweep : nullptr;
  if (is_search(job) && !options.dry_run && !options.test_only) {
    if (claim)
      return fail(
          Errc::kUsage,
          "sweep.ask: a search needs its connection until it ends, and a cut connection would "
          "start it again; log in to the host, and submit it there, for example in tmux");
    return search(cli, options, std::move(job), provenance);
  }
  const CheckStage stage = options.dry_run     ? CheckStage::kDryRun
                           : options.test_only ? CheckStage::kTestOnly
                                               : CheckStage::kSubmission;
  DLRUN_TRY_ASSIGN(const auto checked, check_job(cli, reporter, inspector, job, arrays, stage));
  if (options.dry_run) return show_dry_run(cli, job, arrays, options.json);
  if (options.test_only) return show_verdict(cli, inspector, job, options.json);
  DLRUN_TRY_ASSIGN(const auto submitted,
                   arrays != nullptr
                       ? submit_sweep(cli, reporter, inspector, std::move(job), std::move(*sweep),
                                      checked, provenance, claim ? &*claim : nullptr)
                       : submit_job(cli, reporter, inspector, std::move(job), checked, provenance,
                                    claim ? &*claim : nullptr));
  claim.reset();  // --watch may take days
  return print_submitted(cli, inspector, submitted, {options.watch, options.json});
}

}  // namespace

void add_submit(CLI::App& root, Action& action) {
  auto options = std::make_shared<SubmitOptions>();
  Subcommand command(root, "submit",
                     "Check, render, record and submit an experiment or a job script");
  add_spec_options(command, options->spec);
  command.flag("--watch", options->watch,
               "Follow the log until the job ends; exit with 0, or with 5 if the run failed");
  command
      .option("--in", options->in,
              "Start the run in the allocation of this running job of yours, without a queue")
      .type_name("JOBID");
  command.flag("--dry-run", options->dry_run,
               "Print what dlrun would do; write and submit nothing");
  command.flag("--test-only", options->test_only,
               "Ask Slurm whether and when the job would run; submit nothing");
  command.flag("--json", options->json, "Print a JSON object");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return submit(cli, *options); }; });
}

}  // namespace dlrun
