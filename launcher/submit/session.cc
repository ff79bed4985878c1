#include "launcher/submit/session.h"

#include <memory>

#include "common/files.h"
#include "common/text.h"
#include "launcher/executors/executor.h"
#include "launcher/executors/scrub.h"
#include "launcher/plan/render.h"
#include "launcher/runs/tools.h"
#include "launcher/submit/downloads.h"
#include "launcher/submit/environments.h"
#include "launcher/submit/session_folder.h"

namespace dlrun {
namespace {

/// Puts an option directly after `salloc`, and removes the option that comes from the spec.
void replace_option(std::vector<std::string>& argv, const std::string& option,
                    const std::optional<std::string>& value) {
  if (!value) return;
  std::erase_if(argv, [&](const std::string& word) { return word.starts_with(option + "="); });
  argv.insert(argv.begin() + 1, option + "=" + *value);
}

}  // namespace

Result<SessionEnd> run_session(const Context& context, Reporter& reporter, const Job& job,
                               const std::vector<std::string>& command, bool has_terminal) {
  const LaunchPlan& plan = job.experiment->plan;
  DLRUN_TRY(fetch_downloads(reporter, job.experiment->loaded));
  DLRUN_TRY(build_environments(context, reporter, *job.experiment));
  if (const auto warning = warning_about_place(plan.runs_dir)) reporter.warning(*warning);
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

Error no_allocation(const Context& context, const Job& job, const SessionEnd& session) {
  const auto reachable = make_slurm_cli(context.env)->find("-", job.settings.clusters.value_or(""));
  if (!reachable && reachable.error().code == Errc::kUnavailable) return reachable.error();
  return {Errc::kRefused, fmt::format("Slurm gave no allocation (salloc ended with code {})",
                                      session.end.exit_code)};
}

}  // namespace dlrun
