#pragma once
// A job script that somebody wrote or edited, as `dlrun submit job.sh` takes it.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/sbatch_words.h"

namespace dlrun {

/// Slurm's own default limit (max_script_size).
inline constexpr std::size_t kScriptLimitBytes = 4U << 20U;

struct ScriptFile {
  std::string name;       ///< --job-name, else the file's name; a slug
  std::string job_name;   ///< Slurm's: --job-name, else the run's name
  bool is_named = false;  ///< by a line of its own; else sbatch is told the name
  std::optional<std::string>
      output;            ///< --output, unless it is the one that dlrun renders for plain sbatch
  std::string runs_dir;  ///< the --runs of a rendered script's last line; empty where there is none
};

/// True for a text that starts like a script, "#!".
[[nodiscard]] bool is_script(std::string_view text);

/// Where its job starts, by its --chdir, if sbatch is called in this folder. Relative paths of its
/// output start there.
[[nodiscard]] std::filesystem::path starts_in(std::string_view text,
                                              const std::filesystem::path& folder);

[[nodiscard]] ScriptFile read_script(std::string_view text, std::string_view file_name);

/// What the script's lines ask of sbatch that a run cannot have, in their order: "7: --wait cannot
/// be given: ...", the line first. Several jobs for one run, what submits nothing or waits, and,
/// where the script starts dlrun's agent or carries a spec, what keeps the run's variables from the
/// job.
[[nodiscard]] std::vector<std::string> refusals_of(std::string_view text);

}  // namespace dlrun
