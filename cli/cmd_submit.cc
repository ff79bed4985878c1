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
#include "cli/submission.h"
#include "cli/watch.h"
#include "common/quoting.h"
#include "launcher/executors/scrub.h"
#include "launcher/plan/render.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/provenance.h"

namespace dlrun {
namespace {

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

SubmitPlan submit_plan(const Cli& cli, const Prepared& prepared, const std::string& file) {
  SubmitPlan plan;
  plan.clusters = prepared.plan.clusters;
  plan.directory = folder_of(cli, file);
  if (prepared.plan.output_given) plan.log_pattern = value_of(prepared.plan, "--output");
  return plan;
}

Result<int> show_what_would_be_done(const Cli& cli, const Prepared& prepared, const std::string& script,
                                    const Options& options) {
  const auto run = std::filesystem::path(prepared.plan.runs_dir) / (prepared.plan.name + "-YYYYMMDD-HHMMSS-xxxx");
  const auto words = sbatch_words(run, "TOKEN", submit_plan(cli, prepared, options.spec.file));
  if (!words) return tl::unexpected(words.error());
  if (options.json) {
    nlohmann::ordered_json json;
    json["run"] = nullptr;
    json["runs_dir"] = prepared.plan.runs_dir;
    json["sbatch"] = *words;
    json["gpu_hours"] =
        gpu_hours(prepared.plan.requested) ? nlohmann::ordered_json(*gpu_hours(prepared.plan.requested)) : nullptr;
    json["core_hours"] =
        core_hours(prepared.plan.requested) ? nlohmann::ordered_json(*core_hours(prepared.plan.requested)) : nullptr;
    json["script"] = script;
    print_json(json);
    return kExitOk;
  }
  fmt::print("{}", script);
  print_note(cli, fmt::format("would make {} and call sbatch --parsable {} {}", run.string(), shell_quote_all(*words),
                              (run / "job.sh").string()));
  if (const auto hours = cost(prepared.plan.requested); !hours.empty()) print_note(cli, hours);
  print_note(cli, "nothing was written or submitted (--dry-run)");
  return kExitOk;
}

void tell(const Cli& cli, const Prepared& prepared, const RunDirectory& run, const Submission& submission, bool json) {
  const auto hours = cost(prepared.plan.requested);
  const std::string log =
      submission.log.empty() ? (run.path / fmt::format("slurm-{}.out", submission.job.id)).string() : submission.log;
  if (json) {
    nlohmann::ordered_json out;
    out["run"] = run.id;
    out["name"] = run.name;
    out["path"] = run.path.string();
    out["job"] = submission.job.id;
    out["cluster"] = submission.job.cluster.empty() ? nlohmann::ordered_json(nullptr)
                                                    : nlohmann::ordered_json(submission.job.cluster);
    out["log"] = log;
    const auto gpus = gpu_hours(prepared.plan.requested);
    const auto cores = core_hours(prepared.plan.requested);
    out["gpu_hours"] = gpus ? nlohmann::ordered_json(*gpus) : nlohmann::ordered_json(nullptr);
    out["core_hours"] = cores ? nlohmann::ordered_json(*cores) : nlohmann::ordered_json(nullptr);
    print_json(out);
    return;
  }
  fmt::print("{} {} as job {}{}\n", paint(cli.colour_out, Colour::kGreen, "submitted"),
             paint(cli.colour_out, Colour::kBold, run.id), submission.job.id,
             submission.job.cluster.empty() ? "" : " on " + submission.job.cluster);
  if (!hours.empty()) fmt::print("  cost      {}\n", hours);
  fmt::print("  directory {}\n", run.path.string());
  fmt::print("  follow    dlrun logs -f {0}\n  state     dlrun status {0}\n", run.id);
  std::fflush(stdout);
}

Result<int> submit(Cli& cli, const Options& options) {
  // git looks at the code while we plan and sbatch does its work.
  Provenance provenance(folder_of(cli, options.spec.file), cli.env, cli.argv, cli.tools.both);
  auto prepared = prepare(cli, options.spec, Target::kSlurm);
  if (!prepared) return tl::unexpected(prepared.error());
  const auto script = render_script(prepared->plan);
  if (!script) return tl::unexpected(script.error());
  if (options.dry_run) return show_what_would_be_done(cli, *prepared, *script, options);
  print_diagnostics(cli, check_files(prepared->loaded));

  RunInspector inspector(cli.env);
  const SubmitPlan plan = submit_plan(cli, *prepared, options.spec.file);
  Executor& slurm = inspector.executor_of(JobId{});
  if (options.test_only) {
    SubmitRequest request;
    request.script_text = *script;
    if (plan.clusters) request.options = {"--clusters=" + *plan.clusters};
    request.directory = plan.directory;
    request.env = scrubbed_for_slurm(cli.env, munge_is_available());
    const auto words = slurm.test(request);
    if (!words) return tl::unexpected(words.error());
    fmt::print("{}\n", *words);
    return kExitOk;
  }

  DLRUN_TRY(stage(cli, prepared->plan.runs_dir));
  const auto run = record_run(cli, *prepared, *script);
  if (!run) return tl::unexpected(run.error());
  const auto outcome = submit_once(cli, *run, plan, slurm);
  if (auto written = provenance.write(run->path); !written)
    print_warning(cli, fmt::format("where the run came from is not recorded: {}", written.error().message));
  if (!outcome) return tl::unexpected(outcome.error());
  tell(cli, *prepared, *run, outcome->submission, options.json);
  if (outcome->interrupted) {
    print_note(cli, fmt::format("interrupted, but Slurm has taken the job; `dlrun cancel {}` ends it", run->id));
    return kExitInterrupted;
  }
  if (!options.watch) return kExitOk;

  const IndexEntry entry{run->id, run->name, run->path, run->created};
  const Interrupt interrupt;
  WatchOptions watch;
  watch.print_log = !options.json;
  const auto status = watch_run(cli, inspector, entry, watch, interrupt);
  if (!status && status.error().code == Errc::kInterrupted) {
    print_note(
        cli,
        fmt::format("stopped watching; job {} goes on. `dlrun logs -f {}` follows it again, `dlrun cancel {}` ends it",
                    outcome->submission.job.id, run->id, run->id));
    return kExitInterrupted;
  }
  if (!status) return tl::unexpected(status.error());
  if (options.json) print_json(status_json(entry, *status));
  const int code = exit_code_of_end(*status);
  if (code == kExitOk) {
    print_note(cli, end_text(entry, *status));
  } else {
    print_error(cli, end_text(entry, *status));
  }
  return code;
}

}  // namespace

void add_submit(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = root.add_subcommand("submit", "Check, render, record and submit an experiment");
  add_spec_options(*command, options->spec);
  command->add_flag("--watch", options->watch, "Follow the log until the job ends; exit with 0 or 5");
  auto* dry_run =
      command->add_flag("--dry-run", options->dry_run, "Print what would be done; write and submit nothing");
  command->add_flag("--test-only", options->test_only, "Ask Slurm whether and when it would run; submit nothing")
      ->excludes(dry_run);
  command->add_flag("--json", options->json, "Print a JSON object");
  command->callback([options, &action] { action = [options](Cli& cli) { return submit(cli, *options); }; });
}

}  // namespace dlrun
