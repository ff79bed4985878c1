// `dlrun resubmit`: submits the same script again as a new run; for a sweep, submits the
// missing points.

#include <memory>

#include "cli/command_line.h"
#include "cli/downloads.h"
#include "cli/known_bad.h"
#include "cli/prepare.h"
#include "cli/script_file.h"
#include "cli/secrets.h"
#include "cli/select.h"
#include "cli/submit_job.h"
#include "cli/sweep.h"
#include "cli/terminal/print.h"
#include "common/files.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/plan/script_request.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/json_read.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/ownership.h"

namespace dlrun {
namespace {

struct Options {
  std::string run;
  Follow follow;
  bool force = false;
};

/// Returns the folder from which sbatch is called again. Relative paths in a script written by hand
/// start there. A repetition inherits the folder of the run that it repeats.
std::filesystem::path directory_of(const Cli& cli, const std::filesystem::path& run) {
  constexpr std::size_t kEnough = 1U << 20U;
  std::string directory;
  if (const auto text = read_untrusted(run / "provenance.json", kEnough, Links::kRefuse)) {
    if (const auto json = json_read::object_of(*text))
      directory = json_read::text(*json, "directory");
  }
  std::error_code error;
  return std::filesystem::is_directory(directory, error) ? std::filesystem::path(directory)
                                                         : cli.current_dir;
}

/// With code.snapshot, returns the folder in the run's copy of the code; the script starts
/// there again.
Result<std::optional<std::string>> copy_of_code(const IndexEntry& run, const RunFacts& facts) {
  if (!facts.submission) return std::optional<std::string>();
  constexpr std::string_view kChdir = "--chdir=";
  for (const std::string& word : facts.submission->argv) {
    if (!word.starts_with(kChdir)) continue;
    const std::string folder = word.substr(kChdir.size());
    std::error_code error;
    if (std::filesystem::is_directory(folder, error)) return std::optional(folder);
    return fail(Errc::kNotFound,
                "{}: the copy of the code that it ran, {}, is gone; `dlrun submit` of its spec "
                "takes a new one",
                run.id, folder);
  }
  return std::optional<std::string>();
}

Result<Job> job_of_run(const Cli& cli, RunInspector& inspector, const IndexEntry& run,
                       const RunFacts& facts) {
  auto text = read_untrusted(run.path / "job.sh", kScriptLimitBytes, Links::kRefuse);
  if (!text) {
    return fail(text.error().code, "{}: has no script to submit again: {}", run.id,
                text.error().message);
  }
  Job job;
  job.is_script = true;
  job.of_run = run.path;
  job.file = (run.path / "job.sh").string();
  job.script = std::move(*text);
  job.requested = requested_of_script(job.script);
  job.submit.directory = directory_of(cli, run.path);
  job.source_dir = starts_in(job.script, job.submit.directory);
  auto copy = copy_of_code(run, facts);
  if (!copy) return tl::unexpected(copy.error());
  job.submit.chdir = std::move(*copy);
  ScriptFile script = read_script(job.script, run.name);
  job.name = run.name;
  // A repeated point gets a name of its own, because the sweep's name still means the sweep.
  if (const auto slash = run.id.rfind('/'); slash != std::string::npos)
    job.name = fmt::format("{}-{}", name_of_id(run.id.substr(0, slash)), run.id.substr(slash + 1));
  if (!script.is_named) job.submit.job_name = script.job_name = job.name;
  const auto sweep = sweep_of_point(run.path);
  job.runs_dir = (sweep ? *sweep : run.path).parent_path().string();
  if (facts.submission) job.submit.server = facts.submission->server;
  job.submit.clusters = sbatch_value(job.script, "--clusters", "-M");
  job.submit.comment = sbatch_value(job.script, "--comment", "--comment");
  if (script.output) {
    job.submit.log_pattern = absolute_pattern(job.source_dir, *script.output, script.job_name);
  }
  job.submit.exclude = exclude_known_bad(cli, known_bad_of_run(run.path), job.script,
                                         job.submit.clusters, !job.submit.server);
  const auto prepared = plan_beside_script(cli, run.path, job.script);
  if (!prepared) return tl::unexpected(prepared.error());
  auto secrets = secrets_of_script(
      cli, job.script, *prepared ? (*prepared)->plan.secrets : std::vector<SecretSource>());
  if (!secrets) return tl::unexpected(secrets.error());
  job.submit.secrets = std::move(*secrets);
  if (!*prepared) return job;
  DLRUN_TRY(fetch_downloads(cli, (*prepared)->loaded));
  auto dependency = wait_of(cli, inspector, **prepared, job);
  if (!dependency) return tl::unexpected(dependency.error());
  job.submit.dependency = std::move(*dependency);
  return job;
}

/// A sweep's point that is submitted again on its own. The lock is held until Slurm has the job: of
/// two resubmissions at once, one would otherwise be lost from the sweep's record.
struct LockedPoint {
  SubmissionLock lock;
  /// True if another dlrun submits the sweep's missing points; checked after taking `lock`.
  bool is_sweep_locked = false;
};

/// Returns nothing for a run that is no point. text: the run as the user named it.
Result<std::optional<LockedPoint>> lock_point(const Cli& cli, const std::string& text,
                                              const IndexEntry& run) {
  const auto slash = run.id.rfind('/');
  if (slash == std::string::npos) return std::optional<LockedPoint>();
  // The run may be a repetition of the point in another folder, while the lock is in the point's
  // own directory.
  auto point = run.path;
  auto sweep = sweep_of_point(point);
  if (!sweep) {
    const auto typed = text.rfind('/');
    const auto entry = select_run(
        cli, typed == std::string::npos ? run.id.substr(0, slash) : text.substr(0, typed));
    if (!entry) return tl::unexpected(entry.error());
    const auto record = read_sweep(entry->path);
    if (!record) return tl::unexpected(record.error());
    sweep = entry->path;
    point = point_path(
        entry->path,
        record->points.at(static_cast<std::size_t>(*parse_int(run.id.substr(slash + 1)))));
  }
  auto lock = SubmissionLock::take(point);
  if (!lock && lock.error().code == Errc::kRefused)
    return fail(Errc::kRefused, "{}: another dlrun is submitting it again", run.id);
  if (!lock) return tl::unexpected(lock.error());
  const bool is_sweep_locked = is_being_submitted(*sweep);
  return std::optional(LockedPoint{std::move(*lock), is_sweep_locked});
}

Result<int> resubmit(Cli& cli, const Options& options) {
  auto run = select_run(cli, options.run);
  if (!run) return tl::unexpected(run.error());
  DLRUN_TRY(require_own(run->id, run->path, "submitted again"));
  RunInspector inspector(cli.env, known_servers(cli));
  if (is_sweep(run->path)) return submit_missing(cli, *run, inspector, options.follow);
  auto locked = lock_point(cli, options.run, *run);
  if (!locked) return tl::unexpected(locked.error());
  if (*locked) {
    run->path = current_run_of(run->path);  // read again under the lock
    DLRUN_TRY(require_own(run->id, run->path, "submitted again"));
  }
  const auto status = inspector.inspect(run->path);
  if (!status) return tl::unexpected(status.error());
  if (status->job.cluster == kLocalCluster) {
    return fail(Errc::kUsage,
                "{}: ran on this machine, without Slurm; `dlrun run {}` runs it again", run->id,
                (run->path / "resolved.yaml").string());
  }
  if (is_submission_open(*status) && !options.force) {
    return fail(Errc::kUnavailable,
                "{0}: it is not known whether Slurm has a job of it ({1}), and submitting it again "
                "could run the job twice. Ask `dlrun status {0}` when Slurm answers, or give "
                "--force",
                run->id, status->detail);
  }
  if (!is_final(status->state) && !options.force) {
    return fail(Errc::kUsage,
                "{}: is still {} (job {}), and two jobs may write the same files. Cancel it first, "
                "or give --force",
                run->id, word(status->state), status->job.id);
  }
  const bool is_missing =
      status->state == RunState::kNotSubmitted || status->state == RunState::kRefused;
  if (*locked && (*locked)->is_sweep_locked && is_missing) {
    return fail(
        Errc::kRefused,
        "{}: another dlrun is submitting what the sweep is missing; try again when that is done",
        run->id);
  }
  const auto job = job_of_run(cli, inspector, *run, status->facts);
  if (!job) return tl::unexpected(job.error());
  Provenance provenance(job->source_dir, cli.env, cli.argv, cli.tools.hash);
  provenance.set_repeats(run->id);
  provenance.set_directory(job->submit.directory);
  const auto of_point = [&](const RunDirectory& made) -> Result<> {
    if (!*locked) return {};
    auto written = write_successor(run->path, made.path);
    locked->reset();
    return written;
  };
  return submit_job(cli, *job, provenance, inspector, options.follow, of_point);
}

}  // namespace

void add_resubmit(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(
      root, "resubmit",
      "Submit a run's script again, as a new run; of a sweep, the points that Slurm does not have");
  command.option("RUN", options->run, kRunHelp).required();
  command.flag("--watch", options->follow.watch,
               "Follow the log until the job ends; exit with 0 or 5");
  command.flag("--force", options->force, "Also when the run has not ended");
  command.flag("--json", options->follow.json, "Print a JSON object");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return resubmit(cli, *options); }; });
}

}  // namespace dlrun
