// A rendered script has six parts. A line that comes from a key of the spec shows the key.
//   1. the #SBATCH lines
//   2. strict mode, the agent's path, lead's options, and the EXIT trap
//   3. the prologue: modules, environments, variables, folders and setup lines
//   4. the step of environment.setup_node
//   5. lines that make the container, if srun cannot
//   6. bash arrays (dlrun_step, dlrun_rank, dlrun_program, ...), which the last line combines into
//      one command; a job with components has such arrays for each of them
#include "launcher/plan/render.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "launcher/plan/agentless_script.h"
#include "launcher/plan/component_script.h"
#include "launcher/plan/script_bash_arrays.h"
#include "launcher/plan/script_text.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

/// The start of the line with which an array's script finds the runs of its points. Only array
/// scripts have this line.
constexpr std::string_view kSweepLineStart = "dlrun_sweep=${DLRUN_RUN:?";

/// Options of sbatch that apply to a batch job but not to an allocation of salloc.
constexpr std::array<std::string_view, 11> kBatchOnly{"--output",
                                                      "--error",
                                                      "--open-mode",
                                                      "--no-requeue",
                                                      "--signal",
                                                      "--input",
                                                      "--batch",
                                                      "--propagate",
                                                      "--requeue",
                                                      "--no-kill",
                                                      "--kill-on-invalid-dep"};

/// Renders lines that define and check dlrun_agent, the path of the agent.
[[nodiscard]] std::string agent_lines(const LaunchPlan& plan) {
  return "dlrun_agent=" + shell_quote(plan.agent) +
         "\n"
         "if [[ ! -x $dlrun_agent ]]; then\n"
         "  echo \"dlrun: $(uname -n) does not have $dlrun_agent: does it see the runs' folder? "
         "'dlrun submit' puts the agent there (again)\" >&2\n"
         "  exit 127\n"
         "fi\n"
         "if [[ ! -O $dlrun_agent || ! -O ${dlrun_agent%/*} ]]; then\n"
         "  echo \"dlrun: $dlrun_agent belongs to another user than $(id -un), so it is not "
         "started; run 'dlrun submit' to install your own copy\" >&2\n"
         "  exit 126\n"
         "fi\n";
}

/// Renders the variables of the step, and srun's options, one per line, each with its key.
[[nodiscard]] std::string step_text(const LaunchPlan& plan) {
  ScriptText text;
  if (plan.shares_cpus) {
    text.line(
        "# resources.cpus_per_task is not given: each task gets its share of the node's allocated "
        "CPUs.");
    text.line("dlrun_tasks=${SLURM_TASKS_PER_NODE%%[!0-9]*}");
    text.line("dlrun_cpus=${SLURM_CPUS_PER_TASK:-$((SLURM_CPUS_ON_NODE / dlrun_tasks))}");
  }
  for (const PlannedVariable& variable : plan.step_vars) {
    text.line(
        fmt::format("[[ -v {0} ]] || export {0}={1}", variable.name, shell_quote(variable.value)),
        variable.comment);
  }
  text.line("dlrun_step=(");
  text.line("  srun");
  for (const PlannedOption& option : plan.step)
    text.line("  " + shell_quote(option.word()), option.comment);
  if (plan.shares_cpus)
    text.line("  --cpus-per-task=\"$((dlrun_cpus > 0 ? dlrun_cpus : 1))\"",
              "srun does not take this number from the job since Slurm 22.05");
  text.line(")");
  return text.take();
}

/// Renders the step of environment.setup_node: one shell on each node, before the ranks.
[[nodiscard]] std::string setup_node_text(const LaunchPlan& plan) {
  if (plan.prologue.setup_node.empty()) return "";
  const std::string shell = "bash -eo pipefail -c " + shell_quote(plan.prologue.setup_node);
  if (plan.target == Target::kLocal) return "\n# environment.setup_node\n" + shell + "\n";
  return "\n# environment.setup_node: once on every node. A job may have more CPUs on one node "
         "than on\n"
         "# another; the step uses the smallest of these numbers on each node.\n"
         "dlrun_least=0\n"
         "for dlrun_cpus in ${SLURM_JOB_CPUS_PER_NODE//,/ }; do # 16(x3),8\n"
         "  dlrun_cpus=${dlrun_cpus%%\"(\"*}\n"
         "  if ((dlrun_least == 0 || dlrun_cpus < dlrun_least)); then dlrun_least=$dlrun_cpus; fi\n"
         "done\n"
         "srun --nodes=\"$SLURM_JOB_NUM_NODES\" --ntasks=\"$SLURM_JOB_NUM_NODES\" "
         "--ntasks-per-node=1 --cpus-per-task=\"$dlrun_least\" --export=ALL --mpi=none \\\n  "
         "--kill-on-bad-exit=1 " +
         shell + "\n";
}

/// Returns the words with which both command lines of lead begin: the one that starts the ranks,
/// and the one that reports that they never started.
[[nodiscard]] std::string shared_lead_words(const LaunchPlan& plan) {
  std::string text(kLeadCommand);
  if (plan.target == Target::kLocal) text += fmt::format(" --local {}", plan.local_ranks);
  text += " --runs " + shell_quote(plan.runs_dir) + " --name " + shell_quote(plan.name);
  return plan.lead_options.empty() ? text : text + " \"${dlrun_lead[@]}\"";
}

/// Renders lead's options that come from keys of the spec, one per line.
[[nodiscard]] std::string lead_options_text(const LaunchPlan& plan) {
  if (plan.lead_options.empty()) return "";
  ScriptText text;
  text.line("dlrun_lead=(");
  for (const PlannedOption& option : plan.lead_options)
    text.line("  " + option.option + (option.value ? " " + shell_quote(*option.value) : ""),
              option.comment);
  text.line(")");
  return text.take();
}

/// Returns the command line of the lead that starts the ranks, up to the last option for the whole
/// run.
[[nodiscard]] std::string lead_words(const LaunchPlan& plan) {
  return shared_lead_words(plan) + (plan.forwards_usr1 ? " --forward-usr1" : "");
}

[[nodiscard]] std::string lead_text(const LaunchPlan& plan) {
  std::string text = "exec " + lead_words(plan) + " -- ";
  if (plan.target == Target::kSlurm) text += "\"${dlrun_step[@]}\" ";
  if (!plan.enter_script.words.empty()) text += "\"${dlrun_enter[@]}\" ";
  return text + "\"${dlrun_rank[@]}\" -- \"${dlrun_program[@]}\"\n";
}

/// Renders strict mode, the check of the agent, lead's options, and an EXIT trap. If the script
/// ends before its last line, the trap starts the agent, which reports the failure and records it
/// in the run. In a script without the agent, the trap only prints a message. The last line is an
/// exec, which runs no EXIT trap. With forwards_usr1, a second trap keeps USR1, Slurm's warning
/// before the time limit, from ending the script.
[[nodiscard]] std::string preamble_text(const LaunchPlan& plan) {
  std::string text = "set -eo pipefail\n";
  if (plan.agent.empty()) {
    text +=
        "trap 'echo \"dlrun: the job script ended with code $? at: $BASH_COMMAND; the ranks were "
        "not started\" >&2' EXIT\n";
  } else {
    const char* container_error =
        plan.enter_script.reports_failure
            ? " ${dlrun_container_error:+--container-error \"$dlrun_container_error\"}"
            : "";
    text += "\n" + agent_lines(plan) + lead_options_text(plan) + "trap " +
            shell_quote(fmt::format("exec {} --never-started \"$?\"{} -- \"$BASH_COMMAND\"",
                                    shared_lead_words(plan), container_error)) +
            " EXIT\n";
  }
  if (plan.forwards_usr1) text += "trap : USR1\n";
  return text;
}

/// Disables warnings of shellcheck that do not apply: it cannot read the shell profiles, `$` in
/// quoted values must not be expanded, and Slurm's lists contain commas.
constexpr std::string_view kShellcheck = "# shellcheck disable=SC1090,SC1091,SC2016,SC2054\n";

/// Adds one #SBATCH line for each option.
[[nodiscard]] Result<> add_directives(ScriptText& head,
                                      const std::vector<PlannedOption>& directives) {
  for (const PlannedOption& directive : directives) {
    std::string line = "#SBATCH " + directive.option;
    if (directive.value) {
      const auto quoted = sbatch_quote(*directive.value);
      if (!quoted) return within(directive.comment, quoted.error());
      line += "=" + *quoted;
    }
    head.line(line, directive.comment);
  }
  return {};
}

/// Renders "#!/bin/bash" and the #SBATCH lines. later_parts: the options of each part of a
/// heterogeneous job after the first.
[[nodiscard]] Result<std::string> head_text(
    const std::vector<PlannedOption>& directives,
    const std::vector<std::vector<PlannedOption>>& later_parts = {}) {
  ScriptText head;
  head.line("#!/bin/bash");
  DLRUN_TRY(add_directives(head, directives));
  for (const auto& part : later_parts) {
    head.line(part_separator_line());
    DLRUN_TRY(add_directives(head, part));
  }
  return head.take();
}

/// Renders a comment with the runs that the job waits for; "" if there are none. The job ids of the
/// runs are known only at submission, so the script cannot contain them.
[[nodiscard]] std::string awaited_runs_text(const LaunchPlan& plan) {
  std::vector<std::string> runs;
  for (const PlannedDependency& one : plan.after) {
    if (!one.is_job_id()) runs.push_back(fmt::format("{} {}", one.key, printable(one.run)));
  }
  if (runs.empty()) return "";
  return fmt::format(
      "# {}: `dlrun submit` of this script finds the jobs of these runs and makes this job wait "
      "for them; plain sbatch does not.\n",
      join(runs, ", "));
}

/// Returns the option --array, with the numbers of the tasks.
[[nodiscard]] PlannedOption array_directive(const Packing& packing,
                                            std::optional<std::int64_t> max_parallel) {
  std::string range = fmt::format("0-{}", packing.task_count() - 1);
  if (max_parallel) range += fmt::format("%{}", packing.max_parallel_tasks(*max_parallel));
  std::string key = "sweep";
  if (max_parallel) key += ", sweep.max_parallel";
  if (packing.pack > 1) key += ", sweep.pack";
  return {"--array", std::move(range), std::move(key)};
}

}  // namespace

Result<std::string> render_array_script(const LaunchPlan& plan, const Packing& packing,
                                        std::optional<std::int64_t> max_parallel) {
  std::vector<PlannedOption> directives = plan.directives;
  directives.push_back(array_directive(packing, max_parallel));
  auto text = head_text(directives);
  if (!text) return text;
  const std::string sweep_line =
      std::string(kSweepLineStart) +
      "is not set: submit this array with dlrun submit, which creates its points}";
  if (packing.pack > 1) {
    *text += packed_commands(packing, sweep_line);
    return text;
  }
  *text +=
      "#\n# Rendered by dlrun: a sweep. Each task of this array is one point. The task runs job.sh "
      "in the point's run\n# directory, which `dlrun submit` creates. You can edit that job.sh and "
      "submit it with `dlrun resubmit`.\n"
      "set -eo pipefail\n" +
      sweep_line +
      "\nexport DLRUN_RUN=$dlrun_sweep/$SLURM_ARRAY_TASK_ID\n"
      "if [[ ! -r $DLRUN_RUN/job.sh ]]; then\n"
      "  echo \"dlrun: $(uname -n) cannot read $DLRUN_RUN/job.sh: does it see the runs' folder?\" "
      ">&2\n"
      "  exit 127\n"
      "fi\n"
      "exec bash \"$DLRUN_RUN/job.sh\"\n";
  return text;
}

bool is_array_script(std::string_view script) {
  return script.find("\n" + std::string(kSweepLineStart)) != std::string_view::npos;
}

Result<std::string> render_script(const LaunchPlan& plan) {
  if (plan.target == Target::kLocal) return render_local_script(plan);
  auto head = head_text(plan.directives, plan.later_parts);
  if (!head) return head;
  std::string text = std::move(*head);
  text += "#\n# Rendered by dlrun; edit it as you like. Submit it with sbatch or `dlrun submit`.\n";
  text += awaited_runs_text(plan);
  text += kShellcheck;
  text += preamble_text(plan);
  if (const std::string prologue = render_prologue(plan); !prologue.empty())
    text += "\n" + prologue;
  text += setup_node_text(plan);
  if (!plan.enter_script.batch.empty()) text += "\n" + plan.enter_script.batch;
  if (!plan.components.empty()) return text + "\n" + components_text(plan, lead_words(plan));
  if (plan.agent.empty()) {
    text +=
        "\n" + step_text(plan) + enter_text(plan) + program_text(plan) + agentless_task_text(plan);
    return text + agentless_last_line(plan);
  }
  text += "\n" + step_text(plan) + enter_text(plan) + rank_text(plan) + program_text(plan);
  return text + lead_text(plan);
}

std::string render_local_script(const LaunchPlan& plan) {
  std::string text =
      "#!/bin/bash\n# Rendered by dlrun for this machine, without Slurm; edit it as you like. bash "
      "runs it as it is.\n";
  text += kShellcheck;
  text += preamble_text(plan);
  if (const std::string prologue = render_prologue(plan); !prologue.empty())
    text += "\n" + prologue;
  text += setup_node_text(plan);
  text += "\n" + rank_text(plan) + program_text(plan);
  return text + lead_text(plan);
}

std::vector<std::string> salloc_arguments(const LaunchPlan& plan) {
  std::vector<std::string> words;
  for (const PlannedOption& directive : plan.directives) {
    if (std::find(kBatchOnly.begin(), kBatchOnly.end(), directive.option) == kBatchOnly.end())
      words.push_back(directive.word());
  }
  return words;
}

namespace {

/// Calls srun with all CPUs that the allocation has on its first node. SLURM_JOB_CPUS_PER_NODE is a
/// list such as "16(x3),8".
constexpr const char* kSrunOnFirstNode =
    "exec srun --cpus-per-task=\"${SLURM_JOB_CPUS_PER_NODE%%[!0-9]*}\" \"$@\"";

/// Returns srun's options for a single task that can use all of the job's resources on the node.
[[nodiscard]] std::vector<std::string> session_options(bool has_terminal) {
  // With a terminal, Ctrl-C goes to the program. Without a terminal, srun ends only if the user
  // types Ctrl-C twice within a second; with --quit-on-interrupt, once is enough.
  return {"--overlap",    "--nodes=1",  "--ntasks=1",
          "--export=ALL", "--mpi=none", has_terminal ? "--pty" : "--quit-on-interrupt"};
}

/// Renders an interactive session. step: the command line that starts the session's script.
/// inner_options: srun's options for a second step inside the session. container: further options
/// of that step, which enter the container. before_entry: lines of bash before the plan's
/// `enter_script.words`; unused if `enter_script.words` is empty.
[[nodiscard]] PlannedSession render_session(const LaunchPlan& plan,
                                            const std::vector<std::string>& step,
                                            const std::vector<std::string>& inner_options,
                                            const std::vector<PlannedOption>& container,
                                            std::string_view before_entry,
                                            const std::vector<std::string>& command,
                                            const std::string& script_path) {
  PlannedSession result;
  result.argv = step;
  const bool enters = !plan.enter_script.words.empty();
  const bool is_plain_shell = command.empty() && container.empty() && !enters;
  const std::string prologue = render_prologue(plan);
  result.script = "#!/bin/bash\n";
  result.script += kShellcheck;
  if (is_plain_shell) {
    // The script is the shell's start-up file: the user gets a prompt even if a line fails.
    result.argv.insert(result.argv.end(), {"bash", "--rcfile", script_path, "-i"});
    result.script += "[[ -r ~/.bashrc ]] && . ~/.bashrc\n" + prologue;
    for (const PlannedVariable& variable : plan.rank_vars)
      result.script += "export " + variable.name + "=" + shell_quote(variable.value) + "\n";
    return result;
  }
  result.argv.insert(result.argv.end(), {"bash", script_path});
  result.script += "set -eo pipefail\n" + prologue;
  std::vector<std::string> last;
  if (!container.empty()) {
    last = inner_options;
    for (const PlannedOption& option : container) last.push_back(option.word());
  }
  if (!plan.rank_vars.empty()) last.emplace_back("env");
  for (const PlannedVariable& variable : plan.rank_vars)
    last.push_back(variable.name + "=" + variable.value);
  if (command.empty()) {
    last.insert(last.end(), {"sh", "-c", "command -v bash >/dev/null && exec bash -i; exec sh -i"});
  } else {
    last.insert(last.end(), command.begin(), command.end());
  }
  // The CPUs are those of the step that this script runs in.
  const std::string srun = container.empty() ? "" : "srun --cpus-per-task=\"$SLURM_CPUS_ON_NODE\" ";
  if (enters) {  // no exec, because the script may have to remove a container
    result.script += fmt::format("{}{}\"${{dlrun_enter[@]}}\" {}\n", before_entry, enter_text(plan),
                                 shell_quote_all(last));
  } else {
    result.script += "exec " + srun + shell_quote_all(last) + "\n";
  }
  return result;
}

}  // namespace

PlannedSession render_interactive(const LaunchPlan& plan, const std::vector<std::string>& command,
                                  const std::string& script_path, bool has_terminal) {
  const std::vector<std::string> words = session_options(has_terminal);
  std::vector<std::string> step{"bash", "-c", kSrunOnFirstNode, "srun"};
  step.insert(step.end(), words.begin(), words.end());
  std::vector<PlannedOption> container = plan.container;
  for (PlannedOption& option : container) {
    if (option.option != "--container-env" || !option.value) continue;
    for (const SecretSource& secret : plan.secrets) *option.value += "," + secret.name;
  }
  PlannedSession result =
      render_session(plan, step, words, container, plan.enter_script.session, command, script_path);
  std::vector<std::string> argv{"salloc"};
  for (std::string& word : salloc_arguments(plan)) argv.push_back(std::move(word));
  result.argv.insert(result.argv.begin(), argv.begin(), argv.end());
  return result;
}

namespace {

/// Returns srun's options for the job and the node.
[[nodiscard]] std::vector<std::string> job_and_node_options(const AttachTarget& target) {
  std::vector<std::string> options{"--jobid=" + target.job, "--nodelist=" + target.node};
  if (target.het_group) options.push_back(fmt::format("--het-group={}", *target.het_group));
  if (!target.clusters.empty()) options.insert(options.begin(), "--clusters=" + target.clusters);
  return options;
}

/// Returns srun's option for the CPUs of the step.
[[nodiscard]] std::string cpu_option(const AttachTarget& target) {
  return target.cpus ? fmt::format("--cpus-per-task={}", *target.cpus) : "--cpu-bind=none";
}

}  // namespace

std::vector<std::string> relay_command(const AttachTarget& target, const std::string& agent,
                                       bool connects_to_any_user) {
  // Without --unbuffered, srun keeps bytes back until a line is complete.
  std::vector<std::string> step{"srun", "--unbuffered"};
  for (auto& option : job_and_node_options(target)) step.push_back(std::move(option));
  step.insert(step.end(), {"--overlap", "--nodes=1", "--ntasks=1", "--mpi=none",
                           "--cpus-per-task=1", "--mem=0", "--quit-on-interrupt", agent, "relay"});
  if (connects_to_any_user) step.emplace_back("--any-user");
  return step;
}

PlannedSession render_piped_command(const LaunchPlan& plan, const AttachTarget& target,
                                    const std::vector<std::string>& command,
                                    const std::string& script_path) {
  PlannedSession result;
  result.argv = {"srun", "--unbuffered"};
  for (auto& option : job_and_node_options(target)) result.argv.push_back(std::move(option));
  for (auto& option : session_options(false)) result.argv.push_back(std::move(option));
  result.argv.insert(result.argv.end(), {cpu_option(target), "bash", script_path});
  std::vector<std::string> last{"env"};
  for (const PlannedVariable& variable : plan.rank_vars)
    last.push_back(variable.name + "=" + variable.value);
  last.insert(last.end(), command.begin(), command.end());
  result.script = fmt::format(
      "#!/bin/bash\n{}set -eo pipefail\nexec 3<&0 4>&1 </dev/null >/dev/null\n{}"
      "exec {} <&3 >&4 3<&- 4>&-\n",
      kShellcheck, render_prologue(plan), shell_quote_all(last));
  return result;
}

PlannedSession render_attach(const LaunchPlan& plan, const AttachTarget& target,
                             const std::vector<std::string>& command,
                             const std::string& script_path, bool has_terminal) {
  const std::vector<std::string> job_and_node = job_and_node_options(target);
  std::vector<std::string> words = session_options(has_terminal);
  words.insert(words.begin(), job_and_node.begin(), job_and_node.end());
  std::vector<std::string> step{"srun"};
  step.insert(step.end(), words.begin(), words.end());
  step.push_back(cpu_option(target));
  std::vector<PlannedOption> container = plan.container;
  // Only the ranks' step saves the container.
  std::erase_if(container,
                [](const PlannedOption& option) { return option.option == "--container-save"; });
  const auto named = std::find_if(container.begin(), container.end(), [](const PlannedOption& o) {
    return o.option == "--container-name" && o.value;
  });
  if (named != container.end()) {
    const std::string name = named->value->substr(0, named->value->find(':'));
    container = {{"--container-name", name + ":exec", "container.name"_key}};
  }
  return render_session(plan, step, words, container, plan.enter_script.attach, command,
                        script_path);
}

}  // namespace dlrun
