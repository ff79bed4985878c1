#include "launcher/submit/check_report.h"

#include <utility>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/tools.h"
#include "launcher/submit/script_file.h"

namespace dlrun {
namespace {

/// Checks that `submit` could create a run in `runs_dir`.
Result<> check_place(const Context& context, Reporter& reporter, const std::string& runs_dir) {
  DLRUN_TRY(check_runs_place(runs_dir));
  if (const auto warning = warning_about_place(runs_dir)) reporter.warning(*warning);
  return check_tools_place(runs_dir, context.tools);
}

}  // namespace

Result<std::string> ask_slurm(const Context& context, RunInspector& inspector, const Job& job,
                              const std::string& script) {
  SubmitRequest request = test_request(context, job.settings, script);
  request.keys = keys_of_options(job);
  return inspector.executor_of(job.settings.server).test(request);
}

Result<CheckReport> check_experiment(const Context& context, Reporter& reporter,
                                     RunInspector& inspector, const SpecOptions& options) {
  const auto text = read_file(context.current_dir / options.file, kScriptLimitBytes);
  if (text && is_script(*text)) {
    return fail(Errc::kUsage,
                "{0}: is a job script and not a spec. `dlrun submit {0}` submits it as it is, and "
                "`dlrun submit {0} --test-only` asks Slurm whether it would accept it",
                printable(options.file));
  }
  DLRUN_TRY_ASSIGN(auto job, make_job_of_spec(context, reporter, options));
  CheckReport report;
  report.has_slurm = job.settings.server || find_program("sbatch", context.env);
  DLRUN_TRY_ASSIGN(report.sweep, plan_arrays(context, job, report.has_slurm));
  const SweepPlan* arrays = report.sweep ? &*report.sweep : nullptr;
  if (!report.has_slurm) job.known_bad.reset();  // without Slurm there are no nodes to avoid
  DLRUN_TRY_ASSIGN(report.checked,
                   check_job(context, reporter, inspector, job, arrays, CheckStage::kCheckReport));
  if (auto place = check_place(context, reporter, job.runs_dir); !place) {
    // If the folder comes from the site's file, it may be missing here, because this machine need
    // not belong to the site.
    const bool is_folder_of_site = !options.runs && !context.env.has("DLRUN_RUNS") &&
                                   !job.experiment->loaded.site.runs_dir.empty();
    if (!is_folder_of_site) return tl::unexpected(place.error());
    if (report.has_slurm) reporter.warning(place.error().message);
  }
  if (report.has_slurm) {
    for (const std::string& script : distinct_scripts(job, arrays)) {
      DLRUN_TRY_ASSIGN(const auto answer, ask_slurm(context, inspector, job, script));
      if (report.verdict.empty()) report.verdict = answer;
    }
  }
  report.job = std::move(job);
  return report;
}

}  // namespace dlrun
