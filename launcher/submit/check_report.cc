#include "launcher/submit/check_report.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "container/container.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/tools.h"
#include "launcher/submit/experiment.h"
#include "launcher/submit/refusal.h"
#include "launcher/submit/script_file.h"
#include "launcher/view/account_text.h"
#include "launcher/view/component_lines.h"
#include "launcher/view/cost_text.h"
#include "launcher/view/start_and_limits.h"

namespace dlrun {
namespace {

/// Checks that `submit` could create a run in `runs_dir` and copy its tools there.
Result<> check_runs_folder_and_tools(const Context& context, Reporter& reporter,
                                     const std::string& runs_dir) {
  DLRUN_TRY(check_can_create_run_in(runs_dir));
  if (const auto warning = warning_about_runs_folder(runs_dir)) reporter.warning(*warning);
  return check_tools_folder(runs_dir, context.tools);
}

/// Asks Slurm how many hours the account has left. Warns if the job may use more.
void add_account(const Context& context, Reporter& reporter, const Job& job, CheckReport& report) {
  constexpr std::chrono::seconds kLimit{5};
  report.account = account_use({context.env, job.settings.clusters.value_or(""), kLimit},
                               sbatch_value(job.script, "--account", "-A").value_or(""));
  if (!report.account) return;
  const Requested& requested = job.requests.requested;
  const auto hours = [&](std::optional<double> (*hours_of)(const Requested&)) {
    return report.sweep ? sum_of_hours(*report.sweep, hours_of) : hours_of(requested);
  };
  if (const auto text = too_few_hours_text(*report.account, hours(gpu_hours), hours(core_hours));
      !text.empty())
    reporter.warning(text);
}

/// Returns Slurm's answer as text. Leaves out Slurm's estimate of the start if a warning says that
/// the job may never start: the estimate of `sbatch --test-only` ignores the limits of a partition.
std::string slurm_text(const CheckReport& report) {
  if (!report.has_slurm) return "was not asked: there is no sbatch in PATH";
  if (!report.why_unreachable.empty()) return "could not be asked: " + report.why_unreachable;
  if (report.job.settings.server) return report.verdict;
  constexpr std::string_view kAccepts = "would accept the job (a test; nothing is queued)";
  const auto& warnings = report.job.experiment->loaded.warnings;
  const auto obstacle = std::find_if(warnings.begin(), warnings.end(),
                                     [](const Diagnostic& one) { return one.may_prevent_start; });
  if (obstacle == warnings.end()) return fmt::format("{}: {}", kAccepts, report.verdict);
  return fmt::format("{}, but may never start it: see the warning of {}", kAccepts, obstacle->key);
}

/// Returns the container tool and the image's name in the form that the tool gets: "pyxis, image
/// nvcr.io#nvidia/pytorch:24.05-py3". Returns "" for a job without an image.
std::string container_text(const Experiment& experiment) {
  const LaunchPlan& plan = experiment.plan;
  const auto& image = experiment.loaded.spec.container.image;
  const ContainerBackend* backend = find_container_backend(plan.runtime);
  if (!image || plan.runtime == "none" || backend == nullptr) return {};
  // pyxis accepts more than one form, and its option has the form that the plan has chosen.
  const auto option =
      std::find_if(plan.container.begin(), plan.container.end(),
                   [](const PlannedOption& one) { return one.option == "--container-image"; });
  const bool is_in_option = option != plan.container.end() && option->value;
  return fmt::format("{}, image {}", plan.runtime,
                     printable(is_in_option ? *option->value : backend->native_image_name(*image)));
}

}  // namespace

Result<std::string> ask_slurm(const Context& context, RunInspector& inspector, const Job& job,
                              const std::string& script) {
  SubmitRequest request = request_to_test(context, job.settings, script);
  request.keys_of_options = keys_of_options(job);
  Executor& executor = inspector.executor_of(job.settings.server);
  auto verdict = executor.test(request);
  if (!verdict)
    return tl::unexpected(explained_refusal(context, job, executor, std::move(verdict.error())));
  return verdict;
}

LabelledLines check_lines(const CheckReport& report) {
  const LoadedSpec& loaded = report.job.experiment->loaded;
  LabelledLines lines{{"name", report.job.name},
                      {"site", fmt::format("{} ({})", loaded.site.name, loaded.site.source)},
                      {"runs", report.job.runs_dir}};
  // This label is wider than the others, so its lines start one column later.
  const auto components = component_lines(loaded);
  for (std::size_t at = 0; at < components.size(); ++at)
    lines.push_back({at == 0 ? "components " : "           ", components[at]});
  add_line(lines, "container", container_text(*report.job.experiment));
  if (report.sweep) {
    lines.push_back({"sweep", points_and_cost_text(*report.sweep)});
  } else {
    add_line(lines, "cost", cost_text(report.job.requests.requested));
  }
  if (report.account) lines.push_back({"account", account_text(*report.account)});
  add_line(lines, "partition",
           partition_text(loaded.site, loaded.spec.resources.partition.value_or("")));
  const auto& to_fetch = report.checked.to_fetch;
  if (!to_fetch.empty())
    lines.push_back({"data", fmt::format("missing; `dlrun submit` downloads {}: {}",
                                         to_fetch.size() == 1 ? "it" : "them",
                                         printable(join(to_fetch, ", ")))});
  add_lines(lines, "waits", waits_texts(report.job.prior_runs));
  lines.push_back({"Slurm", slurm_text(report)});
  return lines;
}

Result<CheckReport> check_experiment(const Context& context, Reporter& reporter,
                                     RunInspector& inspector, const SpecOptions& options) {
  const auto text = read_file(context.current_dir / options.file, kScriptLimitBytes);
  if (text && is_script(*text)) return tl::unexpected(script_is_no_spec(options.file));
  DLRUN_TRY_ASSIGN(auto job, job_of_spec_file(context, reporter, options));
  CheckReport report;
  report.has_slurm = job.settings.server || find_program("sbatch", context.env);
  DLRUN_TRY_ASSIGN(report.sweep, plan_arrays(context, job, report.has_slurm));
  const SweepPlan* arrays = report.sweep ? &*report.sweep : nullptr;
  if (!report.has_slurm) job.known_bad.reset();  // without Slurm there are no nodes to avoid
  DLRUN_TRY_ASSIGN(report.checked,
                   check_job(context, reporter, inspector, job, arrays, NextStep::kCheckReport));
  if (auto usable = check_runs_folder_and_tools(context, reporter, job.runs_dir); !usable) {
    // If the folder comes from the site's file, it may be missing here, because this machine need
    // not belong to the site.
    const bool is_folder_of_site = !options.runs_dir && !context.env.has("DLRUN_RUNS") &&
                                   !job.experiment->loaded.site.runs_dir.empty();
    if (!is_folder_of_site) return tl::unexpected(usable.error());
    if (report.has_slurm) reporter.warning(usable.error().message);
  }
  if (report.has_slurm) {
    for (const std::string& script : distinct_scripts(job, arrays)) {
      auto answer = ask_slurm(context, inspector, job, script);
      if (!answer && answer.error().code == Errc::kUnavailable) {
        report.why_unreachable = answer.error().message;
        break;
      }
      if (!answer) return tl::unexpected(answer.error());
      if (report.verdict.empty()) report.verdict = *answer;
    }
  }
  if (report.has_slurm && report.why_unreachable.empty() && !job.settings.server)
    add_account(context, reporter, job, report);
  report.job = std::move(job);
  return report;
}

}  // namespace dlrun
