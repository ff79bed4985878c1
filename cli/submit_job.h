#pragma once
// The steps that submit and resubmit share: build the job, record it, submit it once, print the
// result, watch it.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/cli.h"
#include "cli/log_folders.h"
#include "cli/prepare.h"
#include "cli/submission.h"
#include "launcher/runs/provenance.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// A job to submit, from a spec or from a script.
struct Job {
  std::string name, runs_dir, script;
  Requested requested;
  SubmitPlan submit;
  std::string file;        ///< the script's name in messages
  bool is_script = false;  ///< true for a script that was written or edited by hand
  /// For a script, the spec that it was rendered from; empty if it carries none.
  std::optional<Prepared> prepared;
  std::filesystem::path source_dir;             ///< code.snapshot: the tree to copy
  std::optional<std::filesystem::path> of_run;  ///< the run whose script is submitted again
};

/// Builds the job from a spec or a script. A spec is planned and rendered. A script is used as it
/// is; the spec that it carries adds what a script cannot express: waiting for runs, copying the
/// code, slurmrestd.
[[nodiscard]] Result<Job> make_job(const Cli& cli, const SpecOptions& options);

/// Plans a recorded run again if its script alone does not say everything: which runs it waits for,
/// where its secrets are, which files it downloads. Returns nothing otherwise. For a sweep, returns
/// the plan of its first point.
[[nodiscard]] Result<std::optional<Prepared>> plan_beside_script(const Cli& cli,
                                                                 const std::filesystem::path& run,
                                                                 std::string_view script);

/// Returns the --dependency that sbatch gets in addition to the script; see dependency_of().
[[nodiscard]] Result<std::optional<std::string>> wait_of(const Cli& cli, RunInspector& inspector,
                                                         const Prepared& prepared, const Job& job);

/// Returns the folders of the job's standard output and errors.
[[nodiscard]] LogFolders log_folders_of(const Job& job);

/// Returns the folder of the code that a spec or a script starts; provenance.json describes it.
[[nodiscard]] std::filesystem::path source_folder(const Cli& cli, const std::string& file);

/// Returns the job's container image; empty if an edited script no longer names the spec's image.
[[nodiscard]] std::string image_of(const Job& job);

/// The user's choice after a submission: --watch and --json.
struct Follow {
  bool watch = false, json = false;
};

/// Called after Slurm has accepted the job.
using OnSubmitted = std::function<Result<>(const RunDirectory&)>;

/// Records the job as a run, submits it once, prints the result, and follows it to its end if
/// `follow` asks for it. Returns the exit code. provenance: has been collecting in the background
/// since the command began.
[[nodiscard]] Result<int> submit_job(const Cli& cli, const Job& job, Provenance& provenance,
                                     RunInspector& inspector, const Follow& follow,
                                     const OnSubmitted& on_submitted = {});

/// Follows a submitted job to its end and prints how it ended. Returns the exit code. Prints no log
/// for a sweep, whose points have logs of their own.
[[nodiscard]] Result<int> watch_to_the_end(const Cli& cli, RunInspector& inspector,
                                           const IndexEntry& run, const std::string& job,
                                           bool json);

}  // namespace dlrun
