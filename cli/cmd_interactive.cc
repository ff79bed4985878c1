// `dlrun interactive`: starts a shell or a command on the first node of a new allocation, in the
// job's environment and container.

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/dependencies.h"
#include "cli/downloads.h"
#include "cli/known_bad.h"
#include "cli/prepare.h"
#include "cli/secrets.h"
#include "cli/session_folder.h"
#include "cli/slurm_options.h"
#include "cli/sweep.h"
#include "cli/terminal/print.h"
#include "common/files.h"
#include "common/quoting.h"
#include "common/text.h"
#include "container/container.h"
#include "launcher/executors/executor.h"
#include "launcher/executors/foreground.h"
#include "launcher/executors/scrub.h"
#include "launcher/plan/render.h"
#include "launcher/runs/tools.h"
#include "launcher/spec/sweep_points.h"

namespace dlrun {
namespace {

struct Options {
  SpecOptions spec;
  std::vector<std::string> command;
  bool dry_run = false;
  std::optional<std::size_t> point;
};

Result<int> interact(Cli& cli, const Options& options) {
  auto prepared = prepare(cli, options.spec, Target::kSlurm);
  if (!prepared) return tl::unexpected(prepared.error());
  if (options.point) {
    prepared = prepare_point(cli, std::move(*prepared), *options.point);
    if (!prepared) return tl::unexpected(prepared.error());
  }
  if (prepared->is_sweep()) {
    return fail(
        Errc::kUsage,
        "{}: is a sweep of {} points, and a session has the environment of one: give --point N",
        prepared->loaded.file, count_points(prepared->loaded.spec.sweep));
  }
  const Resources& wanted = prepared->loaded.spec.resources;
  // A step on one node cannot know how many of the job's GPUs that node has.
  if (wanted.gpus && wanted.nodes && wanted.nodes->max > 1) {
    return fail(
        Errc::kUsage,
        "{}: resources.gpus are counted over all nodes, and a session is on one of them: give "
        "--set resources.gpus=null --set resources.gpus_per_node=N, or --set resources.nodes=1",
        prepared->loaded.file);
  }
  DLRUN_TRY(check_salloc_options(cli, prepared->loaded, salloc_words(prepared->plan)));
  const bool has_terminal = is_input_terminal();
  if (options.dry_run) {
    const auto shown = render_interactive(prepared->plan, options.command, "SCRIPT", has_terminal);
    print_document(shown.script);
    print_note(cli, fmt::format("would call {}", shell_quote_all(shown.argv)));
    return kExitOk;
  }
  if (!has_terminal && options.command.empty()) {
    return fail(
        Errc::kUsage,
        "a shell needs a terminal on standard input; without one give a command: -- COMMAND...");
  }
  const auto secrets = secrets_of_spec(cli, prepared->loaded);
  if (!secrets) return tl::unexpected(secrets.error());
  for (const SecretValue& secret : *secrets) {
    if (find_container_backend(prepared->plan.runtime)->carries(secret.value)) continue;
    return fail(Errc::kInvalid,
                "environment.secrets: {} takes no value of several lines or within quotes along, "
                "as {} has; give the "
                "program its file instead",
                prepared->plan.runtime, secret.name);
  }
  RunInspector inspector(cli.env, known_servers(cli));
  const auto dependency = dependency_of(cli, inspector, prepared->loaded, prepared->plan);
  if (!dependency) return tl::unexpected(dependency.error());
  DLRUN_TRY(fetch_downloads(cli, prepared->loaded));
  if (const auto warning = warning_about_place(prepared->plan.runs_dir))
    print_warning(cli, *warning);
  const auto folder = SessionFolder::make(prepared->plan.runs_dir);
  if (!folder) return tl::unexpected(folder.error());
  const auto script = folder->path() / "session.sh";
  const auto session =
      render_interactive(prepared->plan, options.command, script.string(), has_terminal);
  DLRUN_TRY(write_file_atomic(script, with_begun_mark(session.script, *folder), 0700));

  auto argv = session.argv;
  if (*dependency) {  // goes first after `salloc` and replaces the spec's job ids
    std::erase_if(argv, [](const std::string& word) { return word.starts_with("--dependency="); });
    argv.insert(argv.begin() + 1, "--dependency=" + **dependency);
  }
  const auto job_script = render_script(prepared->plan);
  if (!job_script) return tl::unexpected(job_script.error());
  if (const auto exclude = exclude_known_bad(cli, prepared->plan.known_bad, *job_script,
                                             prepared->plan.clusters, true)) {
    std::erase_if(argv, [](const std::string& word) { return word.starts_with("--exclude="); });
    argv.insert(argv.begin() + 1, "--exclude=" + *exclude);
  }
  // The environment may hold secrets: Slurm does not store the environment of an allocation, but
  // passes it only to the session's step.
  Env env = scrubbed_for_slurm(cli.env, munge_is_available());
  for (const SecretValue& secret : *secrets) env.set(secret.name, secret.value);
  auto child = ForegroundProcess::start(argv, env, prepared->plan.folder, OnSignal::kEnd);
  if (!child) {
    if (child.error().code != Errc::kNotFound) return tl::unexpected(child.error());
    return fail(Errc::kNotFound,
                "{}. On a cluster, load the module that brings Slurm or use a login node; without "
                "Slurm, `dlrun run` "
                "runs the job on this machine",
                child.error().message);
  }
  const auto end = child->wait();
  if (!end) return tl::unexpected(end.error());
  if (has_begun(*folder)) {
    if (end->interrupted != 0) return kExitInterrupted;
    // A shell ends with the code of its last command, which is no failure of dlrun.
    return options.command.empty() ? kExitOk : end->exit_code;
  }
  if (end->interrupted != 0 || end->signal != 0)
    return fail(Errc::kInterrupted,
                "interrupted before the allocation was there; nothing is queued");
  if (end->exit_code == 0) return kExitOk;
  // salloc has already printed why. The exit code depends on whether the controller answers.
  const auto reachable = make_slurm_cli(cli.env)->find("-", prepared->plan.clusters.value_or(""));
  if (!reachable && reachable.error().code == Errc::kUnavailable)
    return tl::unexpected(reachable.error());
  return fail(Errc::kRefused, "Slurm gave no allocation (salloc ended with code {})",
              end->exit_code);
}

}  // namespace

void add_interactive(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(
      root, "interactive",
      "Open a shell on the first node of an allocation, in the job's environment and container");
  add_spec_options(command, options->spec);
  command.option("COMMAND", options->command,
                 "After --: the command to run instead of a shell; dlrun exits with its code");
  command
      .option("--point", options->point,
              "Point of a sweep whose environment to use, counted from 0")
      .type_name("N")
      .non_negative();
  command.flag("--dry-run", options->dry_run, "Print what dlrun would do, and start nothing");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return interact(cli, *options); }; });
}

}  // namespace dlrun
