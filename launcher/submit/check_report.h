#pragma once
// Checks an experiment for `dlrun check`, without submitting it, and collects the results.

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/shown_data.h"
#include "launcher/executors/account_use.h"
#include "launcher/submit/checks.h"

namespace dlrun {

/// The findings about a spec that has no errors.
struct CheckReport {
  Job job;
  Checked checked;
  std::optional<SweepPlan> sweep;
  bool has_slurm = false;  ///< Slurm is installed here, or the job goes to a slurmrestd
  /// Slurm's answer to --test-only; for a sweep, the answer for its first array. Empty if Slurm was
  /// not asked or cannot be reached.
  std::string verdict;
  std::string why_unreachable;  ///< empty: Slurm answered or was not asked
  /// The hours that the job's account has left; nullopt if Slurm was not asked or cannot say.
  std::optional<AccountUse> account;
};

/// Makes the checks of a submission. If this machine has Slurm, or the job goes to a slurmrestd,
/// also asks Slurm whether it would accept the job. Records and submits nothing. Fails with
/// kInvalid for a job script, and with the reason of the first check that refuses the job.
[[nodiscard]] Result<CheckReport> check_experiment(const Context& context, Reporter& reporter,
                                                   RunInspector& inspector,
                                                   const SpecOptions& options);

/// Returns the lines of `dlrun check` below its first line, `FILE: valid`.
[[nodiscard]] LabelledLines check_lines(const CheckReport& report);

/// Returns the JSON of `dlrun check --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json check_json(const CheckReport& report);

/// Asks Slurm whether and when the job would run, and returns Slurm's answer. Fails with kRefused
/// and Slurm's message if Slurm would refuse the job, and with kUnavailable if Slurm does not
/// answer.
[[nodiscard]] Result<std::string> ask_slurm(const Context& context, RunInspector& inspector,
                                            const Job& job, const std::string& script);

}  // namespace dlrun
