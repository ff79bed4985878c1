#pragma once
// Reads the requests in the lines of a job script. The script may have been written or edited by
// hand.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/plan/sbatch_lines.h"

namespace dlrun {

/// The longest script, in bytes: Slurm's default of max_script_size.
inline constexpr std::size_t kScriptLimitBytes = 4U << 20U;

/// The requests of a job script: read from its own lines, or taken from the plan that it was
/// rendered from.
struct ScriptRequests {
  /// The run's name: a slug of --job-name or of -N in a #PBS line, else of the file's name.
  std::string name;
  std::string job_name;   ///< Slurm's name of the job: that of the script, else the run's name
  bool is_named = false;  ///< the script gives the job a name; otherwise sbatch gets `job_name`
  /// --output, unless it is the default that dlrun renders for plain sbatch
  std::optional<std::string> output;
  std::optional<std::string> error;  ///< --error
  std::string runs_dir;  ///< --runs in the line of the script that starts lead; may be empty
  std::optional<std::string> chdir, clusters, comment, dependency;  ///< the options of these names
  std::vector<std::string> secrets;                                 ///< names of the secrets
  std::int64_t chain_job_count = 0;  ///< lead's option --chain: the number of jobs; 0: a single job
  /// The copies of dlrun-trainer whose absolute paths are in the lines of a script that the user
  /// gave. Empty for a script that comes from a plan; see LaunchPlan::uses_trainer().
  std::vector<std::string> trainers;
  Requested requested;  ///< the resources
};

/// Returns true if the text starts with "#!".
[[nodiscard]] bool is_script(std::string_view text);

/// Returns the folder where the job starts if sbatch is called in `folder`; --chdir is applied.
/// Relative output paths start there.
[[nodiscard]] std::filesystem::path start_folder(const ScriptRequests& requests,
                                                 const std::filesystem::path& folder);

/// Returns the requests of the script that is rendered from the plan.
[[nodiscard]] ScriptRequests requests_of_plan(const LaunchPlan& plan);

/// Reads the script's #SBATCH and #PBS lines, the options of lead and of the rank agent, and the
/// paths of dlrun-trainer. If the script does not name the job, the names come from file_name.
[[nodiscard]] ScriptRequests parse_script_requests(std::string_view text,
                                                   std::string_view file_name);

/// Returns a message for each option in the script that dlrun refuses, in the order of the lines,
/// such as "7: --wait cannot be given: ..." for line 7. dlrun refuses options that make several
/// jobs, submit nothing, or wait. If the script starts dlrun's agent or carries a spec, dlrun also
/// refuses options that hide the run's environment variables from the job.
[[nodiscard]] std::vector<std::string> refused_option_messages(std::string_view text);

}  // namespace dlrun
