#include "launcher/submit/submit_spec.h"

#include <utility>

#include "launcher/runs/ownership.h"
#include "launcher/runs/resolve.h"
#include "launcher/submit/check_report.h"

namespace dlrun {
namespace {

NextStep next_step_of(SubmitMode mode) {
  return mode == SubmitMode::kDryRun     ? NextStep::kDryRun
         : mode == SubmitMode::kTestOnly ? NextStep::kTestOnly
                                         : NextStep::kSubmission;
}

/// Returns what a submission of the job, which has passed the checks, would do.
Result<SubmitResult> dry_run_of(Job job, std::optional<SweepPlan> sweep) {
  auto run = std::filesystem::path(job.runs_dir) / (job.name + "-YYYYMMDD-HHMMSS-xxxx");
  DLRUN_TRY_ASSIGN(auto options, sbatch_arguments(job.settings, run, "TOKEN"));
  return DryRun{std::move(job), std::move(sweep), std::move(run), std::move(options)};
}

/// Fails with kUsage if the search of a sweep cannot be run as the user asks.
Result<> check_search(bool is_over_ssh, bool watches) {
  if (is_over_ssh)
    return fail(
        Errc::kUsage,
        "sweep.ask: a search cannot be submitted with -H: it would end with the connection, "
        "and the repeated command would start a second search; log in to the host, and submit it "
        "there, for example in tmux");
  if (watches)
    return fail(Errc::kUsage,
                "--watch: not needed, because dlrun follows a sweep with sweep.ask anyway");
  return {};
}

/// Runs the search of a sweep. continued: the earlier search to continue; empty: starts a new one.
Result<SubmitResult> run_or_continue_search(const Context& context, Reporter& reporter,
                                            RunInspector& inspector, Job job,
                                            const std::string& continued, Provenance& provenance) {
  std::optional<IndexEntry> earlier;
  if (!continued.empty()) {
    DLRUN_TRY_ASSIGN(earlier, find_run(context.env, context.current_dir, continued));
    DLRUN_TRY(require_own(earlier->id, earlier->path, "continue it"));
  }
  DLRUN_TRY_ASSIGN(auto searched, run_search(context, reporter, inspector, std::move(job),
                                             provenance, earlier ? &*earlier : nullptr));
  return searched;
}

}  // namespace

Provenance provenance_of(Context& context, const std::string& file) {
  const std::string git_state = context.env.get_or(kGitStateVariable, "");
  context.env.unset(kGitStateVariable);
  return Provenance(code_folder_of(context, file), context.env, context.argv, context.tools.hash,
                    git_state);
}

Result<SubmitResult> submit_spec(Context& context, Reporter& reporter, RunInspector& inspector,
                                 const SpecOptions& options, const SubmitChoices& choices,
                                 Provenance& provenance) {
  const SubmitMode mode = choices.mode;
  DLRUN_TRY_ASSIGN(auto held_token, take_submission_token(context.env));
  if (held_token) {
    DLRUN_TRY_ASSIGN(auto earlier,
                     complete_earlier_submission(context, reporter, inspector, *held_token));
    if (earlier) return std::move(*earlier);
  }
  DLRUN_TRY_ASSIGN(auto job, job_of_file(context, reporter, options));
  DLRUN_TRY_ASSIGN(auto sweep, plan_arrays(context, job, mode != SubmitMode::kDryRun));
  if (job.is_search() && mode == SubmitMode::kSubmit) {
    const bool is_over_ssh = held_token.has_value();  // only dlrun -H sets a token
    DLRUN_TRY(check_search(is_over_ssh, choices.watches));
    return run_or_continue_search(context, reporter, inspector, std::move(job), choices.continued,
                                  provenance);
  }
  if (!choices.continued.empty())
    return fail(Errc::kUsage,
                "--continue: needs a spec with sweep.ask, and cannot be combined with --dry-run or "
                "--test-only");
  const SweepPlan* sweep_plan = sweep ? &*sweep : nullptr;
  DLRUN_TRY_ASSIGN(const auto checked,
                   check_job(context, reporter, inspector, job, sweep_plan, next_step_of(mode)));
  if (mode == SubmitMode::kDryRun) return dry_run_of(std::move(job), std::move(sweep));
  if (mode == SubmitMode::kTestOnly) {
    DLRUN_TRY_ASSIGN(auto answer, ask_slurm(context, inspector, job, job.script));
    return TestOnlyAnswer{std::move(job), std::move(sweep), std::move(answer)};
  }
  HeldToken* const token = held_token ? &*held_token : nullptr;
  DLRUN_TRY_ASSIGN(auto submitted, sweep_plan != nullptr
                                       ? submit_sweep(context, reporter, inspector, std::move(job),
                                                      std::move(*sweep), checked, provenance, token)
                                       : submit_job(context, reporter, inspector, std::move(job),
                                                    checked, provenance, token));
  return submitted;
}

}  // namespace dlrun
