// Renders the components as bash arrays. Lead's command line has, for each component, its options,
// "--", srun's options and the rank agent, "--", and the program; "+++" separates the components.
#include "launcher/plan/component_script.h"

#include <fmt/format.h>

#include "common/quoting.h"
#include "launcher/plan/script_bash_arrays.h"
#include "launcher/plan/script_text.h"

namespace dlrun {
namespace {

/// Returns the end of the names of a component's bash arrays: "my-server" -> my_server. validate()
/// refuses two components whose names differ only in capitals, or in '-' and '_', so no two
/// components have the same arrays.
[[nodiscard]] std::string array_suffix(std::string_view component) {
  std::string text;
  for (const char c : component) {
    const bool is_capital = c >= 'A' && c <= 'Z';
    text += c == '-' ? '_' : is_capital ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

/// Renders options, one per line. is_joined: an option and its value are one word (--NAME=VALUE),
/// as for srun; otherwise two words.
[[nodiscard]] std::string options_text(const std::vector<PlannedOption>& options,
                                       const std::string& array, bool is_joined) {
  ScriptText text;
  text.line(fmt::format("{}=(", array));
  for (const PlannedOption& option : options) {
    const std::string value = option.value ? " " + shell_quote(*option.value) : "";
    text.line("  " + (is_joined ? shell_quote(option.word()) : option.option + value),
              option.comment);
  }
  text.line(")");
  return text.take();
}

/// Renders lines that remove the allocation's request from the environment. Otherwise srun would
/// request the whole allocation for each step, and a step would wait for the end of the others.
[[nodiscard]] std::string unset_text() {
  return "# A component's step requests its own resources, not those of the whole job.\n"
         "unset SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE "
         "SLURM_CPUS_PER_TASK \\\n"
         "  SLURM_GRES SLURM_TRES_PER_TASK SLURM_DISTRIBUTION SLURM_EXACT SLURM_OVERLAP \\\n"
         "  \"${!SLURM_GPUS@}\" \"${!SLURM_MEM_PER_@}\"\n";
}

[[nodiscard]] std::string step_variables_text(const LaunchPlan& plan) {
  ScriptText text;
  for (const PlannedVariable& variable : plan.step_vars) {
    text.line(
        fmt::format("[[ -v {0} ]] || export {0}={1}", variable.name, shell_quote(variable.value)),
        variable.comment);
  }
  return text.take();
}

[[nodiscard]] std::string component_text(const PlannedComponent& component) {
  const std::string suffix = array_suffix(component.name);
  return fmt::format("\n# component {}\n", component.name) +
         options_text(component.options, "dlrun_component_" + suffix, false) +
         options_text(component.plan.step, "dlrun_step_" + suffix, true) +
         enter_text(component.plan, "dlrun_enter_" + suffix) +
         rank_text(component.plan, "dlrun_rank_" + suffix) +
         program_text(component.plan, "dlrun_program_" + suffix);
}

/// Returns a component's arguments in lead's command line.
[[nodiscard]] std::string lead_arguments_of(const PlannedComponent& component) {
  const std::string suffix = array_suffix(component.name);
  const auto all_of = [&](std::string_view array) {
    return fmt::format("\"${{dlrun_{}_{}[@]}}\"", array, suffix);
  };
  std::string step = all_of("step");
  if (!component.plan.enter_script.words.empty()) step += " " + all_of("enter");
  return fmt::format("{} -- {} {} -- {}", all_of("component"), step, all_of("rank"),
                     all_of("program"));
}

}  // namespace

std::string components_text(const LaunchPlan& plan, std::string_view lead) {
  std::string text = unset_text() + step_variables_text(plan);
  for (const PlannedComponent& component : plan.components) text += component_text(component);
  text += fmt::format("\nexec {}", lead);
  const char* separator = " \\\n  ";
  for (const PlannedComponent& component : plan.components) {
    text += separator + lead_arguments_of(component);
    separator = " \\\n  +++ ";
  }
  return text + "\n";
}

std::string_view part_separator_line() {
  return "#SBATCH hetjob";
}

}  // namespace dlrun
