// `dlrun check`: checks everything that can be known before the job is queued.

#include <memory>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/dependencies.h"
#include "cli/downloads.h"
#include "cli/expectations.h"
#include "cli/known_bad.h"
#include "cli/log_folders.h"
#include "cli/prepare.h"
#include "cli/report.h"
#include "cli/secrets.h"
#include "cli/slurm_options.h"
#include "cli/sweep.h"
#include "cli/terminal/print.h"
#include "cli/terminal/words.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/executor.h"
#include "launcher/executors/scrub.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/plan/render.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/tools.h"

namespace dlrun {
namespace {

struct Options {
  SpecOptions spec;
  bool json = false;
};

/// Checks that `submit` could create a run in `runs_dir`.
Result<> check_place(const Cli& cli, const std::string& runs_dir) {
  DLRUN_TRY(check_runs_place(runs_dir));
  if (const auto warning = warning_about_place(runs_dir)) print_warning(cli, *warning);
  return check_tools_place(runs_dir, cli.tools);
}

Result<int> check(Cli& cli, const Options& options) {
  const auto prepared = prepare(cli, options.spec, Target::kSlurm);
  if (!prepared) return tl::unexpected(prepared.error());
  const auto script = render_script(prepared->plan);
  if (!script) return tl::unexpected(script.error());
  std::vector<std::string> scripts{*script};
  const bool has_slurm = prepared->plan.server || find_program("sbatch", cli.env);
  std::optional<SweepPlan> sweep;
  if (prepared->is_sweep()) {
    const auto size = has_slurm ? max_array_size(cli.env, prepared->plan.clusters.value_or(""))
                                : configured_array_size(cli.env);
    auto planned = prepare_sweep(cli, *prepared, size);
    if (!planned) return tl::unexpected(planned.error());
    sweep = std::move(*planned);
    scripts.clear();
    // The options already tested. Arrays that differ only in their length are tested once.
    std::set<std::string> asked;
    for (const PlannedArray& array : sweep->arrays) {
      if (asked.insert(options_of_array(array.script)).second) scripts.push_back(array.script);
    }
  }
  const auto secrets = secrets_of_spec(cli, prepared->loaded);
  if (!secrets) return tl::unexpected(secrets.error());
  RunInspector inspector(cli.env, known_servers(cli));
  const auto dependency = dependency_of(cli, inspector, prepared->loaded, prepared->plan);
  if (!dependency) return tl::unexpected(dependency.error());
  DLRUN_TRY(check_slurm_options(cli, prepared->loaded));
  const auto to_fetch = missing_downloads(cli, prepared->loaded);
  if (!to_fetch) return tl::unexpected(to_fetch.error());
  const auto missing = preflight(cli, prepared->loaded);
  print_diagnostics(cli, missing);
  for (const std::string& one : scripts) {
    const LogFolders logs = find_log_folders(
        {one, prepared->plan.folder, "", &prepared->loaded, prepared->plan.output_given});
    DLRUN_TRY(check_log_folders(cli, logs));
  }
  if (auto place = check_place(cli, prepared->plan.runs_dir); !place) {
    // The site's runs folder need not exist here when the site is checked from another machine.
    const bool is_the_sites =
        !options.spec.runs && !cli.env.has("DLRUN_RUNS") && !prepared->loaded.site.runs_dir.empty();
    if (!is_the_sites) return tl::unexpected(place.error());
    if (has_slurm) print_warning(cli, place.error().message);
  }

  std::string slurm_says;
  if (has_slurm) {
    SubmitRequest request;
    if (prepared->plan.clusters) request.options = {"--clusters=" + *prepared->plan.clusters};
    if (*dependency) request.options.push_back("--dependency=" + **dependency);
    const auto exclude = exclude_known_bad(cli, prepared->plan.known_bad, scripts.front(),
                                           prepared->plan.clusters, !prepared->plan.server);
    if (exclude) request.options.push_back("--exclude=" + *exclude);
    request.directory = prepared->plan.folder;
    request.env = scrubbed_for_slurm(cli.env, munge_is_available());
    hide_secrets(request.env, *secrets);
    Executor& slurm = inspector.executor_of(prepared->plan.server);
    for (const std::string& one : scripts) {
      request.script_text = one;
      const auto words = slurm.test(request);
      if (!words) return tl::unexpected(words.error());
      if (slurm_says.empty()) slurm_says = *words;
    }
  }
  const LaunchPlan& plan = prepared->plan;
  if (options.json) {
    nlohmann::ordered_json json;
    json["name"] = plan.name;
    json["site"] = prepared->loaded.site.name;
    json["warnings"] = prepared->loaded.warnings.size() + missing.size();
    json["downloads"] = *to_fetch;
    json["slurm"] =
        has_slurm ? nlohmann::ordered_json(slurm_says) : nlohmann::ordered_json(nullptr);
    const auto gpus = sweep ? sum_of_hours(*sweep, gpu_hours) : gpu_hours(plan.requested);
    const auto cores = sweep ? sum_of_hours(*sweep, core_hours) : core_hours(plan.requested);
    if (sweep) {
      json["points"] = sweep->points.size();
      json["arrays"] = sweep->arrays.size();
    }
    json["gpu_hours"] = gpus ? nlohmann::ordered_json(*gpus) : nlohmann::ordered_json(nullptr);
    json["core_hours"] = cores ? nlohmann::ordered_json(*cores) : nlohmann::ordered_json(nullptr);
    print_json(json);
    return kExitOk;
  }
  print(cli, "{}: {}\n", prepared->loaded.file, styled(Style::kGreen, "valid"));
  print(cli, "  name      {}\n  site      {} ({})\n  runs      {}\n", plan.name,
        prepared->loaded.site.name, prepared->loaded.site.source, plan.runs_dir);
  if (sweep) print(cli, "  sweep     {}\n", size_text(*sweep));
  if (const auto hours = cost(plan.requested); !sweep && !hours.empty())
    print(cli, "  cost      {}\n", hours);
  if (const auto limits = partition_text(prepared->loaded.site,
                                         prepared->loaded.spec.resources.partition.value_or(""));
      !limits.empty())
    print(cli, "  partition {}\n", limits);
  if (!to_fetch->empty())
    print(cli, "  data      not there yet, submit fetches {}: {}\n",
          to_fetch->size() == 1 ? "it" : "them", printable(join(*to_fetch, ", ")));
  if (*dependency) print(cli, "  waits     {}\n", **dependency);
  print(cli, "  Slurm     {}\n", has_slurm ? slurm_says : "not asked: there is no sbatch in PATH");
  return kExitOk;
}

}  // namespace

void add_check(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(root, "check",
                     "Report every mistake in a spec, and whether Slurm would accept the job");
  add_spec_options(command, options->spec);
  command.flag("--json", options->json, "Print a JSON object");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return check(cli, *options); }; });
}

}  // namespace dlrun
