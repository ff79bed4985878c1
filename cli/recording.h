#pragma once
// A run's directory from the start: what was asked, what it became, where it came from.

#include <string>
#include <string_view>

#include "cli/cli.h"
#include "cli/prepare.h"
#include "launcher/plan/sweep.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/secrets.h"

namespace dlrun {

/// Makes the run's directory with spec.yaml, resolved.yaml, plan.json and job.sh, and its entry in
/// the index. A missing index entry is a warning: the run is found by its path. After a failure
/// nothing of the run is left.
[[nodiscard]] Result<RunDirectory> record_run(const Cli& cli, const Prepared& prepared,
                                              std::string_view script);

/// The same for a sweep: the parent with spec.yaml, resolved.yaml, plan.json (its first point's)
/// and sweep.json, an array-K with job.sh for each sbatch, and in it every point's run with its own
/// job.sh and resolved.yaml. Every point has its secrets file. Everything is on the disk when this
/// returns.
[[nodiscard]] Result<RunDirectory> record_sweep(const Cli& cli, const Prepared& prepared,
                                                const SweepPlan& sweep,
                                                const std::vector<SecretValue>& secrets);

/// The same for a script that was written or edited by hand. rendered_from: what a rendered one
/// carries, nullptr where it carries nothing; spec.yaml and resolved.yaml are that spec, plan.json
/// is the plan before anybody edited the script.
[[nodiscard]] Result<RunDirectory> record_script(const Cli& cli, const std::string& runs_dir,
                                                 const std::string& name, std::string_view script,
                                                 const Prepared* rendered_from);

/// The same for a run whose script is submitted again: its files, but nothing of what became of it.
[[nodiscard]] Result<RunDirectory> record_again(const Cli& cli, const std::string& runs_dir,
                                                const std::string& name,
                                                const std::filesystem::path& of_run);

/// code.snapshot: the folder in the run's copy of the source tree where the job starts. On failure
/// the run is taken back.
[[nodiscard]] Result<std::string> snapshot_for(const Cli& cli,
                                               const std::filesystem::path& source_dir,
                                               const std::filesystem::path& runs_dir,
                                               const RunDirectory& run);

}  // namespace dlrun
