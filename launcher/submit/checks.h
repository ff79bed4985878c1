#pragma once
// The checks before a job is queued or started, so that a refused job leaves no files. The commands
// check, submit, resubmit, interactive and run share one list of checks; each makes some of them.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/runs/status.h"
#include "launcher/submit/job.h"
#include "launcher/submit/log_folders.h"

namespace dlrun {

/// The step that follows the checks. It decides which checks are needed.
enum class NextStep : unsigned {
  kCheckReport = 1,    ///< the report of `dlrun check`
  kSubmission = 2,     ///< a new run
  kTestOnly = 4,       ///< Slurm's verdict, without a submission
  kDryRun = 8,         ///< showing the effect of a submission; Slurm is not asked about nodes
  kResubmission = 16,  ///< a run that repeats another
  kSessionPlan = 32,   ///< a shell in an allocation: its plan, which --dry-run shows
  kSession = 64,       ///< a shell in an allocation: its start; kSessionPlan was checked before
  kDirectStart = 128,  ///< a script that dlrun starts here without sbatch (run, submit --in)
};

/// Findings of the checks that the next step needs.
struct Checked {
  std::size_t warning_count = 0;  ///< number of warnings about files and tools of the job
  /// The files that a submission would download; only for kCheckReport.
  std::vector<std::string> to_fetch;
  std::vector<LogFolderFindings> log_folders;  ///< one entry for each checked script
};

/// Makes all checks that the next step needs, in the order of the list, and reports their findings.
/// Sets job.prior_runs and the fields of job.settings that depend on this machine and on other
/// runs: the secrets, the dependency and the excluded nodes. sweep: the arrays of a sweep, or
/// nullptr. Fails at the first check that refuses the job.
[[nodiscard]] Result<Checked> check_job(const Context& context, Reporter& reporter,
                                        RunInspector& inspector, Job& job, const SweepPlan* sweep,
                                        NextStep next);

/// Returns the #SBATCH options of a script without --array. Slurm gives the same verdict on arrays
/// that differ only in --array.
[[nodiscard]] std::string options_without_array(const std::string& script);

/// Returns the scripts on which Slurm's verdict may differ: the job's, or one for each distinct set
/// of options of a sweep's arrays.
[[nodiscard]] std::vector<std::string> distinct_scripts(const Job& job, const SweepPlan* sweep);

}  // namespace dlrun
