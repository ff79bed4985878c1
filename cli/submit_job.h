#pragma once
// The steps that submit and resubmit share: a job, its record, one submission, the words about it,
// the watch.

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

/// What is submitted, whether it comes from a spec or is a script already.
struct Job {
  std::string name, runs_dir, script;
  Requested requested;
  SubmitPlan submit;
  std::string file;        ///< of a script: what messages call it
  bool is_script = false;  ///< written or edited by hand
  std::optional<Prepared>
      prepared;  ///< of a script what it was rendered from; nothing where it carries no spec
  std::filesystem::path source_dir;             ///< code.snapshot: whose tree is copied
  std::optional<std::filesystem::path> of_run;  ///< the run whose script is submitted again
};

/// A spec is planned and rendered. A script is taken as it is, and with it what no line of it can
/// say: that it waits for runs, takes its code along, goes through slurmrestd. The spec that it
/// carries says so.
[[nodiscard]] Result<Job> make_job(const Cli& cli, const SpecOptions& options);

/// What a recorded run was planned as, where its script alone does not say all: which runs it waits
/// for, where its secrets lie, what it downloads. Nothing where the script says it all. A sweep is
/// its first point.
[[nodiscard]] Result<std::optional<Prepared>> plan_beside_script(const Cli& cli,
                                                                 const std::filesystem::path& run,
                                                                 std::string_view script);

/// What sbatch is told that the job waits for, beyond what the script says; see dependency_of.
[[nodiscard]] Result<std::optional<std::string>> wait_of(const Cli& cli, RunInspector& inspector,
                                                         const Prepared& prepared, const Job& job);

/// Where the job's own output and errors go.
[[nodiscard]] LogFolders log_folders_of(const Job& job);

/// The folder of the code that a spec or a script starts, for its provenance.
[[nodiscard]] std::filesystem::path source_folder(const Cli& cli, const std::string& file);

/// The job's container image; empty where an edited script does not name its spec's any more.
[[nodiscard]] std::string image_of(const Job& job);

struct Follow {
  bool watch = false, json = false;
};

/// Called when Slurm has the job.
using OnSubmitted = std::function<Result<>(const RunDirectory&)>;

/// Records the job as a run, submits it once, tells so, and follows it to its end where that is
/// asked for. Returns the exit code. provenance has been collecting since the command began.
[[nodiscard]] Result<int> submit_job(const Cli& cli, const Job& job, Provenance& provenance,
                                     RunInspector& inspector, const Follow& follow,
                                     const OnSubmitted& on_submitted = {});

/// Follows a job that was submitted to its end, and tells it; returns the exit code. A sweep's logs
/// are its points' and are not printed.
[[nodiscard]] Result<int> watch_to_the_end(const Cli& cli, RunInspector& inspector,
                                           const IndexEntry& run, const std::string& job,
                                           bool json);

}  // namespace dlrun
