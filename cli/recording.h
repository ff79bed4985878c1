#pragma once
// Creates a run's directory: the spec, what it resolved to, the plan and the script.

#include <string>
#include <string_view>

#include "cli/cli.h"
#include "cli/prepare.h"
#include "launcher/plan/sweep.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/secrets.h"

namespace dlrun {

/// Creates the run's directory with spec.yaml, resolved.yaml, plan.json and job.sh, and adds the
/// run to the index. A failure to add it to the index is a warning, because the run can be found by
/// its path. Removes everything of the run if it fails.
[[nodiscard]] Result<RunDirectory> record_run(const Cli& cli, const Prepared& prepared,
                                              std::string_view script);

/// Creates the directory of a sweep and adds the sweep to the index. The parent holds spec.yaml,
/// resolved.yaml, plan.json (of the first point) and sweep.json. Each sbatch call has a folder
/// array-K with its job.sh; a folder in it for each point holds that point's job.sh, resolved.yaml
/// and secrets. All files are flushed to the disk before this returns.
[[nodiscard]] Result<RunDirectory> record_sweep(const Cli& cli, const Prepared& prepared,
                                                const SweepPlan& sweep,
                                                const std::vector<SecretValue>& secrets);

/// Creates the run's directory for a script that was written or edited by hand, and adds it to the
/// index. rendered_from: the spec that the script carries, or nullptr; spec.yaml, resolved.yaml and
/// plan.json then describe that spec, as planned before anybody edited the script.
[[nodiscard]] Result<RunDirectory> record_script(const Cli& cli, const std::string& runs_dir,
                                                 const std::string& name, std::string_view script,
                                                 const Prepared* rendered_from);

/// Creates a new run's directory with the files of the run `of_run`, without its events
/// and results.
[[nodiscard]] Result<RunDirectory> record_again(const Cli& cli, const std::string& runs_dir,
                                                const std::string& name,
                                                const std::filesystem::path& of_run);

/// code.snapshot: copies the source tree into the run. Returns the folder of the copy where the job
/// starts. Deletes the run on failure.
[[nodiscard]] Result<std::string> snapshot_for(const Cli& cli,
                                               const std::filesystem::path& source_dir,
                                               const std::filesystem::path& runs_dir,
                                               const RunDirectory& run);

}  // namespace dlrun
