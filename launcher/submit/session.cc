#include "launcher/submit/session.h"

#include <memory>
#include <utility>

#include "common/files.h"
#include "common/text.h"
#include "launcher/executors/executor.h"
#include "launcher/executors/scrub.h"
#include "launcher/runs/tools.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/submit/checks.h"
#include "launcher/submit/downloads.h"
#include "launcher/submit/environments.h"
#include "launcher/submit/session_folder.h"
#include "launcher/submit/user_settings.h"
#include "launcher/view/exit_code.h"

namespace dlrun {
namespace {

/// Puts an option directly after `salloc`, and removes the same option if the spec has given it.
/// Does nothing without a value.
void replace_option(std::vector<std::string>& argv, const std::string& option,
                    const std::optional<std::string>& value) {
  if (!value) return;
  std::erase_if(argv, [&](const std::string& word) { return word.starts_with(option + "="); });
  argv.insert(argv.begin() + 1, option + "=" + *value);
}

/// The end of a session.
struct SessionEnd {
  bool has_begun = false;  ///< the session's script started; salloc's exit code does not show this
  ForegroundEnd end;
};

/// Fetches the job's downloads, builds its environments, and runs the session. The job must have
/// passed check_job().
Result<SessionEnd> run_session(const Context& context, Reporter& reporter, const Job& job,
                               const std::vector<std::string>& command, bool has_terminal) {
  const LaunchPlan& plan = job.experiment->plan;
  DLRUN_TRY(fetch_downloads(reporter, job.experiment->loaded));
  DLRUN_TRY(build_environments(context, reporter, *job.experiment));
  if (const auto warning = warning_about_runs_folder(plan.runs_dir)) reporter.warning(*warning);
  DLRUN_TRY_ASSIGN(const auto folder, SessionFolder::make(plan.runs_dir));
  const auto script = folder.path() / "session.sh";
  const auto session = render_interactive(plan, command, script.string(), has_terminal);
  DLRUN_TRY(write_file_atomic(script, with_begun_mark(session.script, folder), 0700));
  auto argv = session.argv;
  replace_option(argv, "--dependency", job.settings.dependency);
  replace_option(argv, "--exclude", job.settings.exclude);
  // The environment may hold secrets, because Slurm does not store the environment of an allocation
  // and passes it only to the session's step.
  Env env = scrubbed_for_slurm(context.env, munge_is_available());
  for (const SecretValue& secret : job.settings.secrets) env.set(secret.name, secret.value);
  auto child = ForegroundProcess::start(argv, env, plan.folder, OnSignal::kTermOnly);
  if (!child) {
    if (child.error().code != Errc::kNotFound) return tl::unexpected(child.error());
    return fail(Errc::kNotFound,
                "{}. On a cluster, load the module that brings Slurm or use a login node; without "
                "Slurm, `dlrun run` runs the job on this machine",
                child.error().message);
  }
  DLRUN_TRY_ASSIGN(const auto end, child->wait());
  return SessionEnd{has_begun(folder), end};
}

/// Returns the error of a salloc that got no allocation.
Error no_allocation_error(const Context& context, const Job& job, const SessionEnd& session) {
  // No job has the comment "-". This search only shows whether Slurm answers.
  const auto answer = make_slurm_cli(context.env)->find("-", job.settings.clusters.value_or(""));
  if (!answer && answer.error().code == Errc::kUnavailable) return answer.error();
  return {Errc::kRefused, fmt::format("Slurm gave no allocation (salloc ended with code {})",
                                      session.end.exit_code)};
}

}  // namespace

Result<SessionResult> run_interactive(const Context& context, Reporter& reporter,
                                      const SpecOptions& options,
                                      const std::optional<std::size_t>& point,
                                      const SessionChoices& choices) {
  DLRUN_TRY_ASSIGN(auto prepared,
                   prepare_spec_or_point(context, reporter, options, Target::kSlurm, point));
  if (prepared.is_sweep()) {
    return fail(Errc::kUsage, "{}: is a sweep of {} points; choose one with --point N",
                printable(prepared.loaded.file), count_points(prepared.loaded.spec.sweep));
  }
  DLRUN_TRY_ASSIGN(auto script, render_script(prepared.plan));
  Job job = job_of_experiment(std::move(prepared), std::move(script));
  RunInspector inspector(context.env, known_servers(context));
  DLRUN_TRY(check_job(context, reporter, inspector, job, nullptr, NextStep::kSessionPlan));
  if (choices.is_dry_run) {
    return SessionResult(
        render_interactive(job.experiment->plan, choices.command, "SCRIPT", choices.has_terminal));
  }
  DLRUN_TRY(refuse_shell_without_terminal(choices));
  DLRUN_TRY(check_job(context, reporter, inspector, job, nullptr, NextStep::kSession));
  DLRUN_TRY_ASSIGN(const auto session,
                   run_session(context, reporter, job, choices.command, choices.has_terminal));
  const ForegroundEnd& end = session.end;
  if (!session.has_begun && (end.first_signal != 0 || end.signal != 0))
    return fail(Errc::kInterrupted, "interrupted before the session began; nothing is queued");
  if (!session.has_begun && end.exit_code != 0)
    return tl::unexpected(no_allocation_error(context, job, session));
  return SessionResult(end);
}

Result<> refuse_shell_without_terminal(const SessionChoices& choices) {
  if (choices.has_terminal || !choices.command.empty()) return {};
  return fail(
      Errc::kUsage,
      "a shell needs a terminal on standard input; without one give a command: -- COMMAND...");
}

int exit_code_of_session(const SessionChoices& choices, const ForegroundEnd& end) {
  if (end.first_signal != 0) return kExitInterrupted;
  // A shell ends with the exit code of its last command, which says nothing about dlrun.
  return choices.command.empty() ? kExitOk : end.exit_code;
}

}  // namespace dlrun
