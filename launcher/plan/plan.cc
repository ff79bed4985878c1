// Implements make_plan(), and the functions of plan.h that compute hours and paths.
#include "launcher/plan/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/job_id.h"
#include "common/text.h"
#include "launcher/plan/component_planner.h"
#include "launcher/plan/planner.h"
#include "launcher/spec/spec_builder.h"

namespace dlrun {

bool PlannedDependency::is_job_id() const {
  return is_slurm_job_id(run);
}

std::optional<double> gpu_hours(const Requested& requested) {
  if (!requested.gpus || !requested.time_seconds) return std::nullopt;
  return static_cast<double>(*requested.gpus) * static_cast<double>(*requested.time_seconds) /
         3600.0;
}

std::optional<double> core_hours(const Requested& requested) {
  if (!requested.cpus || !requested.time_seconds) return std::nullopt;
  return static_cast<double>(*requested.cpus) * static_cast<double>(*requested.time_seconds) /
         3600.0;
}

std::vector<std::string> LaunchPlan::program_argv() const {
  std::vector<std::string> argv;
  for (const PlannedArguments& group : program)
    argv.insert(argv.end(), group.arguments.begin(), group.arguments.end());
  return argv;
}

bool LaunchPlan::uses_trainer() const {
  return needs_trainer ||
         std::any_of(components.begin(), components.end(),
                     [](const PlannedComponent& one) { return one.plan.needs_trainer; });
}

tl::expected<LaunchPlan, std::vector<Diagnostic>> make_plan(const LoadedSpec& loaded,
                                                            const PlanInputs& inputs) {
  auto plan = loaded.spec.components.empty() ? Planner(loaded, inputs).run()
                                             : ComponentPlanner(loaded, inputs).run();
  if (!plan) {
    for (Diagnostic& problem : plan.error()) problem.line = source_line_of(loaded, problem.where);
  }
  return plan;
}

std::string known_bad_file_in(std::string_view runs_dir) {
  return fmt::format("{}/known-bad.jsonl", runs_dir);
}

std::string environments_folder(std::string_view project) {
  return fmt::format("{}{}.dlrun", project, project.ends_with('/') ? "" : "/");
}

std::string uv_link(std::string_view project) {
  return environments_folder(project) + "/uv/current";
}

std::string eessi_script(std::string_view version) {
  return fmt::format("/cvmfs/software.eessi.io/versions/{}/init/bash", version);
}

std::string runs_directory(const std::optional<std::string>& option, const Env& env,
                           const SiteProfile& site, const std::filesystem::path& current_dir) {
  std::string chosen = option.value_or("");
  if (chosen.empty()) chosen = env.get_or("DLRUN_RUNS", "");
  if (chosen.empty() && !site.runs_dir.empty())
    chosen = substitute_variables(site.runs_dir, env).value_or("");
  if (chosen.empty()) chosen = "runs";
  return absolute_path(chosen, current_dir.string(), env).value_or((current_dir / "runs").string());
}

}  // namespace dlrun
