// Renders scripts for launch.agent: false. Shell commands replace the rank agent, so that the nodes
// need no part of dlrun.

#include "launcher/plan/agentless_script.h"

#include <algorithm>

#include "launcher/plan/script_text.h"
#include "launcher/spec/preset.h"

namespace dlrun {
namespace {

/// Shell lines that choose a port on the first node, where both rank 0 and the batch shell run.
constexpr std::string_view kPortChoiceText =
    R"sh(# A port for rank 0's program, which runs on this node. The port is unused, is outside the
# kernel's own range, and is locked against other jobs of this kind until this job ends. A shell
# cannot keep the port reserved until the program binds it; dlrun's agent can. The lock files are
# in a folder of this user, because another user could put files or links directly into /tmp.
dlrun_locks=/tmp/dlrun-ports-$UID
mkdir -m 700 "$dlrun_locks" 2>/dev/null || true
if [[ -L $dlrun_locks || ! -d $dlrun_locks || ! -O $dlrun_locks ]]; then dlrun_locks=$(mktemp -d); fi
for ((dlrun_try = 0; dlrun_try < 1000; dlrun_try++)); do
  dlrun_port=$((10000 + (RANDOM * 32768 + RANDOM) % 20000))
  printf -v dlrun_in_use ': [0-9A-F]*:%04X ' "$dlrun_port"
  if grep -qs "$dlrun_in_use" /proc/net/tcp /proc/net/tcp6; then continue; fi
  { exec {dlrun_lock}>>"$dlrun_locks/$dlrun_port"; } 2>/dev/null || continue
  if flock --nonblock "$dlrun_lock"; then break; fi
  exec {dlrun_lock}>&-
done
if ((dlrun_try == 1000)); then
  echo "dlrun: no free port was found for rank 0" >&2
  exit 70
fi
export DLRUN_MASTER_PORT=$dlrun_port
)sh";

/// Shell lines that set the variables DLRUN_* of one task from Slurm's variables, as the rank agent
/// would do. The lines are POSIX sh, because an image may have no bash.
constexpr std::string_view kTaskVariablesText =
    R"sh(# dlrun_tasks: the number of tasks of this node, from a list such as 2(x3),1
dlrun_node=$SLURM_NODEID dlrun_tasks=
for dlrun_group in $(echo "${SLURM_STEP_TASKS_PER_NODE:-$SLURM_TASKS_PER_NODE}" | tr , ' '); do
  dlrun_tasks=${dlrun_group%%"("*} dlrun_nodes=1
  case $dlrun_group in *x*) dlrun_nodes=${dlrun_group#*x} dlrun_nodes=${dlrun_nodes%")"} ;; esac
  if [ "$dlrun_node" -lt "$dlrun_nodes" ]; then break; fi
  dlrun_node=$((dlrun_node - dlrun_nodes))
done
export DLRUN_RANK="$SLURM_PROCID" DLRUN_WORLD_SIZE="${SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS}"
export DLRUN_LOCAL_RANK="$SLURM_LOCALID" DLRUN_LOCAL_WORLD_SIZE="$dlrun_tasks"
export DLRUN_NODE_RANK="$SLURM_NODEID" DLRUN_NNODES="${SLURM_STEP_NUM_NODES:-$SLURM_NNODES}"
export DLRUN_MASTER_ADDR="$SLURM_LAUNCH_NODE_IPADDR"
)sh";

/// Converts a template to sh text in double quotes. The template's fields must be valid. In the
/// template, "{{" stands for "{" and "}}" for "}", as in preset files.
std::string shell_word_of_template(std::string_view text, std::string_view nproc_per_node) {
  std::string word = "\"";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if ((c == '{' || c == '}') && at + 1 < text.size() && text[at + 1] == c) {
      word += c;
      ++at;
    } else if (c == '{') {
      const auto close = text.find('}', at);
      const auto name = text.substr(at + 1, close - at - 1);
      word += name == "nproc_per_node" ? nproc_per_node : shell_of_field(name);
      at = close;
    } else {
      if (c == '"' || c == '\\' || c == '$' || c == '`') word += '\\';
      word += c;
    }
  }
  return word + "\"";
}

}  // namespace

std::string agentless_task_text(const LaunchPlan& plan) {
  std::string nproc = "1";
  ScriptText task;
  for (const auto& option : plan.rank_options) {
    if (option.option == "--nproc-per-node") nproc = option.value.value_or(nproc);
  }
  for (const auto& variable : plan.rank_vars) {
    std::string as_template;
    for (const char c : variable.value) as_template += std::string(c == '{' || c == '}' ? 2 : 1, c);
    task.line("export " + variable.name + "=" + shell_word_of_template(as_template, nproc),
              variable.comment);
  }
  for (const auto& variable : plan.rank_templates) {
    task.line("export " + variable.name + "=" + shell_word_of_template(variable.value, nproc),
              variable.comment);
  }
  std::string exec_line = "exec";
  for (const auto& option : plan.rank_options) {
    if (option.option == "--word")
      exec_line += " " + shell_word_of_template(option.value.value_or(""), nproc);
  }
  std::string text(kPortChoiceText);
  text += "# launch.agent: false. What each task does before it becomes the program.\n";
  text += "read -r -d '' dlrun_task <<'SH' || true\n";
  text += kTaskVariablesText;
  text += task.take();
  text += exec_line + " \"$@\"\nSH\n";
  return text;
}

std::string agentless_last_line(const LaunchPlan& plan) {
  const std::string enter = plan.enter_script.words.empty() ? "" : " \"${dlrun_enter[@]}\"";
  return "exec \"${dlrun_step[@]}\"" + enter +
         " sh -c \"$dlrun_task\" sh \"${dlrun_program[@]}\"\n";
}

}  // namespace dlrun
