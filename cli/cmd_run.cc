// `dlrun run`: runs the job on this machine without Slurm. The leader runs in the foreground and
// starts the ranks.

#include <cstdio>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/downloads.h"
#include "cli/prepare.h"
#include "cli/recording.h"
#include "cli/report.h"
#include "cli/secrets.h"
#include "cli/submission.h"
#include "cli/sweep.h"
#include "cli/terminal/print.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/foreground.h"
#include "launcher/plan/render.h"
#include "launcher/runs/lost_end.h"
#include "launcher/runs/provenance.h"
#include "launcher/spec/sweep_points.h"

namespace dlrun {
namespace {

struct Options {
  SpecOptions spec;
  bool json = false, dry_run = false;
  std::optional<std::size_t> point;
};

/// Removes the secrets on every return. The leader removes them only if it begins.
struct SecretsRemoval {
  const std::filesystem::path& run;
  ~SecretsRemoval() { remove_secrets(run); }
};

/// Records the end of a run whose leader could not: the script's environment part ended it before
/// the leader began, or the leader was killed.
Result<> record_end(const std::filesystem::path& run, const ForegroundEnd& end) {
  const auto record = read_events(run);
  if (!record) return tl::unexpected(record.error());
  if (record->ended) return {};
  const std::string how = end.signal != 0 ? fmt::format("was ended by {}", signal_name(end.signal))
                                          : fmt::format("ended with code {}", end.exit_code);
  const std::string message = record->has_events
                                  ? fmt::format("the leader {} and left no word", how)
                                  : fmt::format("the script {} before the ranks were started", how);
  const auto written = write_lost_end(run, end.exit_code, message);
  if (!written) return tl::unexpected(written.error());
  return {};
}

Result<int> run_here(Cli& cli, const Options& options) {
  Provenance provenance(folder_of(cli, options.spec.file), cli.env, cli.argv, cli.tools.hash);
  auto prepared = prepare(cli, options.spec, Target::kLocal);
  if (!prepared) return tl::unexpected(prepared.error());
  if (options.point) {
    prepared = prepare_point(cli, std::move(*prepared), *options.point);
    if (!prepared) return tl::unexpected(prepared.error());
  }
  if (prepared->is_sweep()) {
    return fail(Errc::kUsage,
                "{}: is a sweep of {} points, and this machine has no queue for them: --point N "
                "runs one of them here",
                prepared->loaded.file, count_points(prepared->loaded.spec.sweep));
  }
  const std::string script = render_local_script(prepared->plan);
  if (options.dry_run) {
    print_document(script);
    print_note(cli, "nothing was written or started (--dry-run)");
    return kExitOk;
  }
  const auto secrets = secrets_of_spec(cli, prepared->loaded);
  if (!secrets) return tl::unexpected(secrets.error());
  print_diagnostics(cli, check_files(prepared->loaded));
  DLRUN_TRY(fetch_downloads(cli, prepared->loaded));
  DLRUN_TRY(stage(cli, prepared->plan.runs_dir));
  const auto run = record_run(cli, *prepared, script);
  if (!run) return tl::unexpected(run.error());

  std::string folder = prepared->plan.folder;
  if (prepared->plan.snapshot) {
    auto snapshot = snapshot_for(cli, prepared->plan.folder, prepared->plan.runs_dir, *run);
    if (!snapshot) return tl::unexpected(snapshot.error());
    folder = std::move(*snapshot);
  }
  Submission submission;
  submission.token = random_hex(16);
  submission.job.cluster = kLocalCluster;
  submission.argv = {"bash", (run->path / "job.sh").string()};
  DLRUN_TRY(write_submission(run->path, submission));
  const SecretsRemoval removal{run->path};  // declared before the leader, and so destroyed after it
  DLRUN_TRY(write_secrets(run->path, *secrets));
  const Env env = job_environment(cli, run->path, submission.token, *secrets);
  std::vector<std::string> words = submission.argv;
  if (options.json)
    // Standard output carries only the JSON object.
    words.insert(words.begin(), {"bash", "-c", "exec \"$@\" >&2", "bash"});
  auto leader = ForegroundProcess::start(words, env, folder, OnSignal::kTerminate);
  if (!leader) return tl::unexpected(leader.error());
  submission.job.id = local_job_id(leader->pid()).value_or("");
  submission.state = Submission::State::kSubmitted;
  DLRUN_TRY(write_submission(run->path, submission));
  print_note(cli, fmt::format("{} runs here; directory {}", run->id, run->path.string()));
  const auto end = leader->wait();
  remove_secrets(run->path);
  if (auto written = provenance.write(run->path); !written)
    print_warning(
        cli, fmt::format("where the run came from is not recorded: {}", written.error().message));
  if (!end) return tl::unexpected(end.error());

  if (end->exit_code != 0) DLRUN_TRY(record_end(run->path, *end));
  const IndexEntry entry{run->id, run->name, run->path, run->created};
  const auto status = RunInspector(cli.env, known_servers(cli)).inspect(run->path);
  if (!status) return tl::unexpected(status.error());
  if (options.json) print_json(status_json(entry, *status));
  if (end->interrupted != 0) {
    print_note(cli, fmt::format("interrupted; {} was ended", run->id));
    return kExitInterrupted;
  }
  return tell_end(cli, entry, *status);
}

}  // namespace

void add_run(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(root, "run", "Run the experiment on this machine, without Slurm");
  add_spec_options(command, options->spec);
  command.flag("--dry-run", options->dry_run, "Print the script; write and start nothing");
  command.option("--point", options->point, "Of a sweep: run this point, from 0")
      .type_name("N")
      .non_negative();
  command.flag("--json", options->json,
               "Print a JSON object at the end, and the ranks' output to stderr");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return run_here(cli, *options); }; });
}

}  // namespace dlrun
