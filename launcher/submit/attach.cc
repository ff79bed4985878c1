#include "launcher/submit/attach.h"

#include <algorithm>

#include "common/files.h"
#include "common/hostlist.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/executors/scrub.h"
#include "launcher/executors/slurm_parse.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/runs/tools.h"
#include "launcher/submit/experiment.h"
#include "launcher/submit/session_folder.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {
namespace {

/// Returns the part of a heterogeneous job that has the node; nullopt for other jobs.
std::optional<std::int64_t> part_with(const JobReport& report, const std::string& node) {
  for (const auto& [part, list] : report.nodes_of_parts) {
    const auto nodes = expand_hostlist(list);
    if (nodes && std::find(nodes->begin(), nodes->end(), node) != nodes->end()) return part;
  }
  return std::nullopt;
}

/// Returns the job and the node. Fails with kUsage if the run has no running job of its own in
/// Slurm, or if the job does not run on the wanted node.
Result<AttachTarget> target_of(const IndexEntry& run, const RunStatus& status,
                               const std::string& wanted) {
  const bool is_local = status.job.cluster == kLocalCluster && !is_over(status);
  if (const auto& claim = status.facts.claim; is_local && claim && is_slurm_job_id(claim->job.id)) {
    return fail(Errc::kUsage,
                "{0}: runs in the allocation of job {1}, which is not the run's own; `srun "
                "--jobid={1} --overlap --pty bash` opens a shell in it",
                run.id, claim->job.id);
  }
  if (is_local) {
    return fail(Errc::kUsage,
                "{}: runs without Slurm on {}; use any shell there, and open its ports there at "
                "127.0.0.1",
                run.id, printable(host_of_local_job(status.job.id)));
  }
  if (status.state != RunState::kRunning || !status.facts.report ||
      status.facts.report->nodes.empty()) {
    return fail(
        Errc::kUsage, "{}: is {}; this command needs a running job{}", run.id, word(status.state),
        status.state == RunState::kPending ? ". `dlrun status` shows when it may start" : "");
  }
  const std::string& list = status.facts.report->nodes;
  const auto nodes = expand_hostlist(list);
  if (!nodes || nodes->empty())
    return fail(Errc::kInternal, "{}: Slurm's node list '{}' is no list", run.id, list);
  if (!wanted.empty() && std::find(nodes->begin(), nodes->end(), wanted) == nodes->end()) {
    return fail(Errc::kUsage, "--node {}: the job runs on {}", printable(wanted), printable(list));
  }
  const std::string& node = wanted.empty() ? nodes->front() : wanted;
  return AttachTarget{status.job.id, node, status.job.cluster, std::nullopt,
                      part_with(*status.facts.report, node)};
}

/// Returns the job id that srun accepts. For a task of an array ("12_3"), asks squeue for the
/// task's own job id.
Result<std::string> job_id_for_srun(const Env& env, const JobId& job) {
  DLRUN_TRY(check_job_id(job));
  if (job.id.find('_') == std::string::npos) return job.id;
  Command command;
  command.argv = {"squeue", "-h", "-j", job.id, "-o", "%A"};
  if (!job.cluster.empty()) command.argv.insert(command.argv.end(), {"-M", job.cluster});
  command.env = scrubbed_for_slurm(env, munge_is_available());
  DLRUN_TRY_ASSIGN(const auto done, run_command(command));
  for (const auto line : split(done.out, '\n')) {  // with -M, squeue adds a line about the cluster
    if (parse_int(trim(line))) return std::string(trim(line));
  }
  return fail(Errc::kUnavailable, "squeue does not tell the number of job {}: {}", job.id,
              trim(done.err));
}

/// Returns the number of the job's CPUs on the node; nullopt if Slurm does not report it.
std::optional<std::int64_t> cpus_of(const Env& env, const AttachTarget& target) {
  Command command;
  command.argv = {"scontrol"};
  if (!target.clusters.empty()) command.argv.insert(command.argv.end(), {"-M", target.clusters});
  command.argv.insert(command.argv.end(), {"--details", "show", "job", target.job});
  command.env = scrubbed_for_slurm(env, munge_is_available());
  const auto done = run_command(command);
  return done && done->exit_code == 0 ? parse_job_cpus_on_node(done->out, target.node)
                                      : std::nullopt;
}

}  // namespace

Result<IndexEntry> find_run_to_enter(const Context& context, const std::string& text,
                                     std::string_view advice) {
  DLRUN_TRY_ASSIGN(auto run, find_run(context.env, context.current_dir, text));
  DLRUN_TRY(require_own(run.id, run.path, "enter its job"));
  if (is_sweep(run.path))
    return fail(Errc::kUsage, "{0}: is a sweep; {1}, such as {0}/0", run.id, advice);
  return run;
}

Result<LaunchPlan> plan_of_run(const Context& context, Reporter& reporter,
                               const std::filesystem::path& run) {
  constexpr std::size_t kLimit = 2U << 20U;
  auto resolved = read_untrusted(run / "resolved.yaml", kLimit, Links::kRefuse);
  if (!resolved && resolved.error().code == Errc::kNotFound) {
    reporter.note(
        "the run's script contains no spec: the session gets the plain environment of the node");
    return LaunchPlan{};
  }
  if (!resolved) return tl::unexpected(resolved.error());
  PlanInputs inputs;
  inputs.runs_dir = runs_folder_of(run).string();
  const auto tools = tools_folder(inputs.runs_dir, context.tools);
  inputs.agent_path = tools / "dlrun-agent";
  inputs.trainer_path = tools / "dlrun-trainer";
  DLRUN_TRY_ASSIGN(auto prepared, prepare_again(context, (run / "resolved.yaml").string(),
                                                std::move(*resolved), inputs));
  return std::move(prepared.plan);
}

Result<AttachTarget> find_target(const Env& env, const IndexEntry& run, const RunStatus& status,
                                 const std::string& node) {
  if (status.may_be_outdated) return fail(Errc::kUnavailable, "{}", status.facts.why_unreachable);
  auto target = target_of(run, status, node);
  if (!target) return target;
  DLRUN_TRY_ASSIGN(target->job, job_id_for_srun(env, status.job));
  return target;
}

Result<AttachTarget> find_target_and_cpu_count(const Env& env, const IndexEntry& run,
                                               const RunStatus& status, const std::string& node) {
  auto target = find_target(env, run, status, node);
  if (target) target->cpus = cpus_of(env, *target);
  return target;
}

std::filesystem::path runs_folder_of(const std::filesystem::path& run) {
  return sweep_of_point(run).value_or(run).parent_path();
}

Result<std::filesystem::path> copy_agent_beside_runs(const Context& context,
                                                     const std::filesystem::path& runs_dir) {
  DLRUN_TRY(copy_missing_tools(context.bin_dir.parent_path(), runs_dir, context.tools,
                               TrainerUse::kNone));
  return tools_folder(runs_dir, context.tools) / "dlrun-agent";
}

std::filesystem::path start_folder_of_run(const IndexEntry& run, const RunStatus& status,
                                          std::filesystem::path planned) {
  if (const auto& submission = status.facts.submission; submission && !submission->chdir.empty())
    planned = submission->chdir;
  std::error_code error;
  return std::filesystem::is_directory(planned, error) ? planned : run.path.parent_path();
}

namespace {

/// Runs the session and waits for its end.
Result<ForegroundEnd> run_beside(const Context& context, Reporter& reporter, const IndexEntry& run,
                                 const RunStatus& status, const LaunchPlan& plan,
                                 const AttachTarget& target, const SessionChoices& choices) {
  const auto runs_dir = runs_folder_of(run.path);
  if (const auto warning = warning_about_runs_folder(runs_dir)) reporter.warning(*warning);
  DLRUN_TRY_ASSIGN(const auto folder, SessionFolder::make(runs_dir));
  const auto script = folder.path() / "session.sh";
  const auto session =
      render_attach(plan, target, choices.command, script.string(), choices.has_terminal);
  DLRUN_TRY(write_file_atomic(script, with_begun_mark(session.script, folder), 0700));
  DLRUN_TRY_ASSIGN(
      auto child,
      ForegroundProcess::start(session.argv, scrubbed_for_slurm(context.env, munge_is_available()),
                               start_folder_of_run(run, status, plan.folder), OnSignal::kTermOnly));
  DLRUN_TRY_ASSIGN(const auto end, child.wait());
  if (end.first_signal == 0 && !has_begun(folder))
    return fail(Errc::kRefused,
                "{}: Slurm started no shell beside the run (srun ended with code {})", run.id,
                end.exit_code);
  return end;
}

}  // namespace

Result<SessionResult> attach_to(const Context& context, Reporter& reporter, const std::string& text,
                                const std::string& node, const SessionChoices& choices) {
  DLRUN_TRY_ASSIGN(const auto run, find_run_to_enter(context, text, "attach to one of its points"));
  if (!choices.is_dry_run) DLRUN_TRY(refuse_shell_without_terminal(choices));
  DLRUN_TRY_ASSIGN(const auto status,
                   RunInspector(context.env, known_servers(context)).inspect(run.path));
  DLRUN_TRY_ASSIGN(const auto target, find_target_and_cpu_count(context.env, run, status, node));
  DLRUN_TRY_ASSIGN(const auto plan, plan_of_run(context, reporter, run.path));
  if (choices.is_dry_run)
    return SessionResult(
        render_attach(plan, target, choices.command, "SCRIPT", choices.has_terminal));
  DLRUN_TRY_ASSIGN(const auto end,
                   run_beside(context, reporter, run, status, plan, target, choices));
  return SessionResult(end);
}

}  // namespace dlrun
