#pragma once
// Reads a job script that was written or edited by hand, for `dlrun submit job.sh`.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/plan/sbatch_words.h"

namespace dlrun {

/// Slurm's own default limit (max_script_size).
inline constexpr std::size_t kScriptLimitBytes = 4U << 20U;

/// The requests of a job script: read from its own lines, or taken from the plan that it was
/// rendered from.
struct ScriptRequests {
  std::string name;       ///< the run's name, a slug: --job-name, else the file's name
  std::string job_name;   ///< Slurm's name of the job: --job-name, else the run's name
  bool is_named = false;  ///< true if the script has a --job-name; otherwise sbatch gets `name`
  /// --output, unless it is the default that dlrun renders for plain sbatch
  std::optional<std::string> output;
  std::string runs_dir;  ///< --runs in a rendered script's last line; empty if there is none
  std::optional<std::string> chdir, clusters, comment, dependency;  ///< the options of these names
  std::vector<std::string> secrets;  ///< names that the rank agent gets as --secret
  Requested requested;
};

/// Returns true if the text starts with "#!".
[[nodiscard]] bool is_script(std::string_view text);

/// Returns the folder where the job starts when sbatch is called in `folder`, following --chdir.
/// Relative output paths start there.
[[nodiscard]] std::filesystem::path starts_in(const ScriptRequests& script,
                                              const std::filesystem::path& folder);

/// Returns the requests of the script that a plan becomes.
[[nodiscard]] ScriptRequests script_of_plan(const LaunchPlan& plan);

/// Reads the script's #SBATCH and #PBS lines, and the options of dlrun's agent. file_name: names a
/// script without --job-name.
[[nodiscard]] ScriptRequests read_script(std::string_view text, std::string_view file_name);

/// Returns the options in the script that a run cannot have, in their order: "7: --wait cannot be
/// given: ...", with the line number first. Refused are options that make several jobs, that submit
/// nothing or that wait. A script that starts dlrun's agent or carries a spec is also refused
/// options that keep the run's variables from the job.
[[nodiscard]] std::vector<std::string> refusals_of(std::string_view text);

}  // namespace dlrun
