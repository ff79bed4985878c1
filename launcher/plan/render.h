#pragma once
// A plan as text: the batch script that people read and edit, and the interactive shell's.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/plan/plan.h"

namespace dlrun {

/// What the last line of a rendered script executes; the agent's options follow.
inline constexpr std::string_view kLeadCommand = "\"$dlrun_agent\" lead";

/// The whole job script, in the form of runtime/ENVIRONMENT.md: deterministic, shellcheck-clean,
/// sbatch-able by hand. Fails with kInvalid on a directive's value that sbatch's tokenizer cannot
/// carry, naming its key.
[[nodiscard]] Result<std::string> render_script(const LaunchPlan& plan);

/// The script of a job array that runs a sweep: the same #SBATCH lines, and one line that makes
/// each task the point of its own. It grows neither with the points nor with what they set: a task
/// starts job.sh in its point's run directory.
[[nodiscard]] Result<std::string> render_array_script(const LaunchPlan& plan, std::size_t tasks,
                                                      std::optional<std::int64_t> max_parallel);
/// Whether a script is one of those.
[[nodiscard]] bool is_array_script(std::string_view script);

/// Modules, conda, venv, variables and setup lines: the part of the script before the step.
[[nodiscard]] std::string render_prologue(const LaunchPlan& plan);

/// sbatch's directives as argv words ("--nodes=2"), for salloc. Those that only a batch job has are
/// left out.
[[nodiscard]] std::vector<std::string> salloc_words(const LaunchPlan& plan);

struct Interactive {
  std::vector<std::string> argv;  ///< salloc ... srun --overlap --pty ... bash SCRIPT
  std::string script;             ///< what script_path must hold, where the nodes can read it
};

/// A shell (or command) on the first node of a new allocation, inside the job's environment and
/// container. has_terminal: a pseudo-terminal for it; a command in a pipe must not get one.
[[nodiscard]] Interactive render_interactive(const LaunchPlan& plan,
                                             const std::vector<std::string>& command,
                                             const std::string& script_path,
                                             bool has_terminal = true);

/// A running job and the node of it that is asked for.
struct AttachPoint {
  std::string job, node;
  std::string clusters;  ///< -M; empty: the default cluster
  std::optional<std::int64_t>
      cpus;  ///< the job's on that node; not known: the step is bound to none
};

/// The same beside the ranks of a job that runs: nothing is allocated. In a named container the
/// shell joins the one that runs, under pyxis without a name it gets one of its own from the same
/// image.
[[nodiscard]] Interactive render_attach(const LaunchPlan& plan, const AttachPoint& point,
                                        const std::vector<std::string>& command,
                                        const std::string& script_path, bool has_terminal = true);

/// The whole script of a run on this machine, without Slurm, for bash: the same environment, then
/// lead with --local N.
[[nodiscard]] std::string render_local_script(const LaunchPlan& plan);

}  // namespace dlrun
