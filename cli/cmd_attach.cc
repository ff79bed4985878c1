// `dlrun attach`: starts a shell or a command beside the ranks of a running job.

#include <unistd.h>

#include <algorithm>
#include <memory>

#include "cli/command_line.h"
#include "cli/prepare.h"
#include "cli/select.h"
#include "cli/session_folder.h"
#include "cli/terminal/print.h"
#include "common/hostlist.h"
#include "common/quoting.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/executors/foreground.h"
#include "launcher/executors/scrub.h"
#include "launcher/executors/slurm_parse.h"
#include "launcher/plan/render.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/status.h"
#include "launcher/runs/sweep.h"

namespace dlrun {
namespace {

struct Options {
  std::string run, node;
  std::vector<std::string> command;
  bool dry_run = false;
};

/// Returns the job and the node. Fails with kUsage if the run has no job to attach to.
Result<AttachPoint> point_of(const IndexEntry& run, const RunStatus& status,
                             const std::string& wanted) {
  if (status.job.cluster == kLocalCluster) {
    return fail(Errc::kUsage,
                "{}: runs on this machine, without Slurm: any shell here is beside it", run.id);
  }
  if (status.state != RunState::kRunning || !status.facts.report ||
      status.facts.report->nodes.empty()) {
    return fail(Errc::kUsage, "{}: is {}; a shell goes beside the ranks of a job that runs", run.id,
                word(status.state));
  }
  const std::string& list = status.facts.report->nodes;
  const auto nodes = expand_hostlist(list);
  if (!nodes || nodes->empty())
    return fail(Errc::kInternal, "{}: Slurm's node list '{}' is no list", run.id, list);
  if (!wanted.empty() && std::find(nodes->begin(), nodes->end(), wanted) == nodes->end()) {
    return fail(Errc::kUsage, "--node {}: the job runs on {}", printable(wanted), printable(list));
  }
  return AttachPoint{status.job.id, wanted.empty() ? nodes->front() : wanted, status.job.cluster,
                     std::nullopt};
}

/// Returns Slurm's own number of a job. srun needs it for a task of an array, too.
Result<std::string> number_of(const Cli& cli, const JobId& job) {
  DLRUN_TRY(check_job(job));
  if (job.id.find('_') == std::string::npos) return job.id;
  Command command;
  command.argv = {"squeue", "-h", "-j", job.id, "-o", "%A"};
  if (!job.cluster.empty()) command.argv.insert(command.argv.end(), {"-M", job.cluster});
  command.env = scrubbed_for_slurm(cli.env, munge_is_available());
  const auto done = run_command(command);
  if (!done) return tl::unexpected(done.error());
  for (const auto line : split(done->out, '\n')) {  // with -M an extra line names the cluster
    if (parse_int(trim(line))) return std::string(trim(line));
  }
  return fail(Errc::kUnavailable, "squeue does not tell the number of job {}: {}", job.id,
              trim(done->err));
}

/// Returns the job's CPUs on the node; nothing if Slurm does not report them.
std::optional<std::int64_t> cpus_of(const Cli& cli, const AttachPoint& point) {
  Command command;
  command.argv = {"scontrol"};
  if (!point.clusters.empty()) command.argv.insert(command.argv.end(), {"-M", point.clusters});
  command.argv.insert(command.argv.end(), {"--details", "show", "job", point.job});
  command.env = scrubbed_for_slurm(cli.env, munge_is_available());
  const auto done = run_command(command);
  return done && done->exit_code == 0 ? parse_cpus_of_node(done->out, point.node) : std::nullopt;
}

/// Returns the folder where the job's programs started; the run's parent folder if that no
/// longer exists.
std::filesystem::path place_of(const IndexEntry& run, const RunStatus& status,
                               const LaunchPlan& plan) {
  std::filesystem::path place = plan.folder;
  if (status.facts.submission) {
    constexpr std::string_view kChdir = "--chdir=";
    for (const std::string& word : status.facts.submission->argv) {
      if (word.starts_with(kChdir)) place = word.substr(kChdir.size());
    }
  }
  std::error_code error;
  return std::filesystem::is_directory(place, error) ? place : run.path.parent_path();
}

/// Returns the run's plan; an empty one for a script that carries no spec.
Result<LaunchPlan> plan_of(const Cli& cli, const std::filesystem::path& run) {
  constexpr std::size_t kLimit = 2U << 20U;
  auto resolved = read_untrusted(run / "resolved.yaml", kLimit, Links::kRefuse);
  if (!resolved && resolved.error().code == Errc::kNotFound) {
    print_note(cli,
               "the run's script carries no spec: the shell gets the node's plain environment");
    return LaunchPlan{};
  }
  if (!resolved) return tl::unexpected(resolved.error());
  PlanInputs inputs;
  inputs.runs_dir = run.parent_path().string();
  const auto tools = tools_directory(inputs.runs_dir, cli.tools);
  inputs.agent_path = tools / "dlrun-agent";
  inputs.trainer_path = tools / "dlrun-trainer";
  auto prepared =
      prepare_again(cli, (run / "resolved.yaml").string(), std::move(*resolved), inputs);
  if (!prepared) return tl::unexpected(prepared.error());
  return std::move(prepared->plan);
}

Result<int> attach(Cli& cli, const Options& options) {
  const auto run = select_run(cli, options.run);
  if (!run) return tl::unexpected(run.error());
  DLRUN_TRY(require_own(run->id, run->path, "entered"));
  if (is_sweep(run->path)) {
    return fail(Errc::kUsage, "{0}: is a sweep; a shell goes beside the ranks of one point: {0}/0",
                run->id);
  }
  const bool has_terminal = is_input_terminal();
  if (!has_terminal && options.command.empty() && !options.dry_run) {
    return fail(
        Errc::kUsage,
        "a shell needs a terminal on standard input; without one give a command: -- COMMAND...");
  }
  const auto status = RunInspector(cli.env, known_servers(cli)).inspect(run->path);
  if (!status) return tl::unexpected(status.error());
  if (status->is_last_known) return fail(Errc::kUnavailable, "{}", status->facts.unreachable);
  auto point = point_of(*run, *status, options.node);
  if (!point) return tl::unexpected(point.error());
  auto number = number_of(cli, status->job);
  if (!number) return tl::unexpected(number.error());
  point->job = std::move(*number);
  point->cpus = cpus_of(cli, *point);
  const auto plan = plan_of(cli, run->path);
  if (!plan) return tl::unexpected(plan.error());
  if (options.dry_run) {
    const auto shown = render_attach(*plan, *point, options.command, "SCRIPT", has_terminal);
    print_document(shown.script);
    print_note(cli, fmt::format("would call {}", shell_quote_all(shown.argv)));
    return kExitOk;
  }
  const auto folder = SessionFolder::make(run->path.parent_path());
  if (!folder) return tl::unexpected(folder.error());
  const auto script = folder->path() / "session.sh";
  const auto session = render_attach(*plan, *point, options.command, script.string(), has_terminal);
  DLRUN_TRY(write_file_atomic(script, with_begun_mark(session.script, *folder), 0700));
  auto child =
      ForegroundProcess::start(session.argv, scrubbed_for_slurm(cli.env, munge_is_available()),
                               place_of(*run, *status, *plan), OnSignal::kEnd);
  if (!child) return tl::unexpected(child.error());
  const auto end = child->wait();
  if (!end) return tl::unexpected(end.error());
  if (end->interrupted != 0) return kExitInterrupted;
  if (!has_begun(*folder))
    return fail(Errc::kRefused, "{}: Slurm started no shell beside it (srun ended with code {})",
                run->id, end->exit_code);
  // A shell ends with the code of its last command, which is no failure of dlrun.
  return options.command.empty() ? kExitOk : end->exit_code;
}

}  // namespace

void add_attach(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(root, "attach",
                     "A shell, or a command, whose code is then dlrun's, beside the ranks of a job "
                     "that runs, in its "
                     "environment and container");
  command.option("RUN", options->run, kRunHelp).required();
  command.option("--node", options->node, "This node of the job's; else its first")
      .type_name("NAME");
  command.option("COMMAND", options->command, "After --: run this instead of a shell");
  command.flag("--dry-run", options->dry_run, "Print what would be done");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return attach(cli, *options); }; });
}

}  // namespace dlrun
