#pragma once
// Renders a plan as text: the batch script that people read and edit, and the script of an
// interactive shell.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/plan/packing.h"
#include "launcher/plan/plan.h"

namespace dlrun {

/// The program and the subcommand that the last line of a script executes if the job uses the
/// agent. Lead's options follow them.
inline constexpr std::string_view kLeadCommand = "\"$dlrun_agent\" lead";

/// Renders the job script described in runtime/ENVIRONMENT.md. The result is deterministic, passes
/// shellcheck and can be submitted with sbatch by hand. For Target::kLocal, returns the result of
/// render_local_script(). Fails with kInvalid if sbatch's tokenizer cannot represent a directive's
/// value; the message names the key.
[[nodiscard]] Result<std::string> render_script(const LaunchPlan& plan);

/// Renders the script of a job array that runs a sweep: the plan's #SBATCH lines and --array, and
/// commands that start job.sh in the run directories of the task's points. The size of the script
/// depends neither on the number of points nor on their values. max_parallel: the number of points
/// that may run at the same time; nullopt: any number. Fails as render_script() does.
[[nodiscard]] Result<std::string> render_array_script(const LaunchPlan& plan,
                                                      const Packing& packing,
                                                      std::optional<std::int64_t> max_parallel);
/// Returns true if the script was rendered by render_array_script().
[[nodiscard]] bool is_array_script(std::string_view script);

/// Renders the part of the script before the step: modules, environments, variables, folders and
/// setup lines.
[[nodiscard]] std::string render_prologue(const LaunchPlan& plan);

/// Renders the lines that prepare a shell on the submitting machine: EESSI, the job's modules, and
/// the variables of the spec and the site. In this shell, dlrun looks for tools and builds
/// environments.
[[nodiscard]] std::string render_submitting_shell_setup(const LaunchPlan& plan);

/// Renders the lines that define `module` in a batch shell; "" if the job needs no modules.
[[nodiscard]] std::string render_module_init(const LaunchPlan& plan);
/// Renders the lines that look for the program conda and set dlrun_conda to its path; "" if the job
/// needs no conda. If there is no conda, dlrun_conda is a path at which no file can be executed.
[[nodiscard]] std::string render_conda_search(const LaunchPlan& plan);

/// Returns sbatch's directives as arguments of salloc ("--nodes=2"), without those that apply only
/// to a batch job.
[[nodiscard]] std::vector<std::string> salloc_arguments(const LaunchPlan& plan);

/// An interactive session: the command that starts it, and its script.
struct PlannedSession {
  /// The command: salloc ... srun --overlap --pty ... bash SCRIPT. A session in a running job
  /// starts with srun, without salloc.
  std::vector<std::string> argv;
  std::string script;  ///< the text of the file script_path, which the nodes must be able to read
};

/// Renders a shell (or `command`, if it is not empty) on the first node of a new allocation, inside
/// the job's environment and container. has_terminal: true if srun gives the session a
/// pseudo-terminal; a command in a pipe must not have a pseudo-terminal.
[[nodiscard]] PlannedSession render_interactive(const LaunchPlan& plan,
                                                const std::vector<std::string>& command,
                                                const std::string& script_path,
                                                bool has_terminal = true);

/// A running job, and the node on which the shell, the command or the relay starts.
struct AttachTarget {
  std::string job, node;
  std::string clusters;  ///< -M; empty: the default cluster
  /// The number of the job's CPUs on that node. If it is unknown, the step is not bound to CPUs.
  std::optional<std::int64_t> cpus;
  /// The part of a heterogeneous job that has the node; nullopt for other jobs.
  std::optional<std::int64_t> het_group{};
};

/// Renders a shell (or `command`, if it is not empty) beside the ranks of a running job, without a
/// new allocation. If the ranks run in a container of enroot, or in a container of pyxis that has a
/// name, the shell joins this container. For any other container, the shell gets a new one from the
/// same image.
[[nodiscard]] PlannedSession render_attach(const LaunchPlan& plan, const AttachTarget& target,
                                           const std::vector<std::string>& command,
                                           const std::string& script_path,
                                           bool has_terminal = true);

/// Returns the command that starts the agent's relay on a node of a running job, in a step of one
/// task that shares the resources of the ranks. connects_to_any_user: the relay also connects to
/// programs of other users of the node.
[[nodiscard]] std::vector<std::string> relay_command(const AttachTarget& target,
                                                     const std::string& agent,
                                                     bool connects_to_any_user = false);

/// Renders a command that runs beside the ranks of a running job and speaks a protocol over its
/// standard input and output. The command gets the job's environment and runs on the node itself,
/// even if the ranks run in a container. The commands that set up the environment have an empty
/// standard input, and their output is discarded, except for standard error.
[[nodiscard]] PlannedSession render_piped_command(const LaunchPlan& plan,
                                                  const AttachTarget& target,
                                                  const std::vector<std::string>& command,
                                                  const std::string& script_path);

/// Renders the bash script of a run on this machine, without Slurm: the environment as in a job
/// script, then lead with --local N.
[[nodiscard]] std::string render_local_script(const LaunchPlan& plan);

}  // namespace dlrun
