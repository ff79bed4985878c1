// Reads the commands that prepare a job: modules, conda and virtual environments, variables.

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/import/import_state.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/secret_words.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

/// Variables that a preset of torch.distributed sets for every rank.
constexpr std::array<std::string_view, 6> kTorchVariables{
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK"};

bool is_torch_variable(std::string_view name) {
  return std::find(kTorchVariables.begin(), kTorchVariables.end(), name) != kTorchVariables.end();
}

/// Returns the texts of the words from `first` on; nullopt if one of them is not known.
std::optional<std::vector<std::string>> texts_from(const ShellCommand& command, std::size_t first,
                                                   const ImportState& state) {
  std::vector<std::string> texts;
  for (std::size_t i = first; i < command.words.size(); ++i) {
    const auto words = expanded(command.words[i], state);
    if (!words) return std::nullopt;
    texts.insert(texts.end(), words->begin(), words->end());
  }
  return texts;
}

/// Appends the items of `from`, starting with number `first`. Sets `line` to the line of the
/// command, unless an earlier command has set it.
void add_all(std::vector<std::string>& to, std::size_t& line, std::size_t line_of_command,
             const std::vector<std::string>& from, std::size_t first) {
  if (line == 0) line = line_of_command;
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(first), from.end());
}

/// Reads `module load A B`, `module purge`, `module use DIR`, and the same commands of `ml`.
bool import_module(const ShellCommand& command, ImportState& state) {
  const std::string tool = command.words.front().literal();
  if (tool != "module" && tool != "ml") return false;
  const auto words = texts_from(command, 1, state);
  if (!words || words->empty()) return false;
  const std::string& verb = words->front();
  const bool has_option_or_variable =
      std::any_of(words->begin(), words->end(), [](const std::string& word) {
        return word.starts_with('-') || word.find(kVariableMark) != std::string::npos;
      });
  const bool is_folder_list = verb == "use" && words->size() > 1;
  if (has_option_or_variable && !is_folder_list) return false;
  if (verb == "purge" && words->size() == 1) {
    // The job of a spec purges before it loads, so a purge after a load cannot become a key.
    if (!state.modules.empty()) return false;
    state.keys.set({"environment.modules.purge"_key, "true", command.line, ""});
  } else if (is_folder_list) {
    if ((*words)[1].starts_with('-')) return false;
    add_all(state.module_folders, state.module_folders_line, command.line, *words, 1);
  } else if ((verb == "load" || verb == "add") && words->size() > 1) {
    add_all(state.modules, state.modules_line, command.line, *words, 1);
  } else if (tool == "ml") {
    constexpr std::array<std::string_view, 14> kVerbs{
        "list",  "avail", "spider", "swap", "unload", "restore", "save",
        "reset", "show",  "load",   "add",  "use",    "purge",   "help"};
    if (std::find(kVerbs.begin(), kVerbs.end(), verb) != kVerbs.end()) return false;
    add_all(state.modules, state.modules_line, command.line, *words, 0);
  } else {
    return false;
  }
  return true;
}

/// Reads a command that only makes `module` or `conda activate` work in the shell. The script that
/// dlrun renders has such commands of its own. Returns false for any other command.
bool import_initialisation(const ShellCommand& command, ImportState& state) {
  if (command.words.size() != 2) return false;
  const std::string first = command.words.front().literal();
  const std::string& argument = command.words[1].source;
  const bool is_source = first == "source" || first == ".";
  const auto argument_ends_with = [&](std::string_view file) {
    return argument.ends_with(file) || argument.ends_with(std::string(file) + "\"");
  };
  const bool starts_conda =
      (is_source && argument_ends_with("conda.sh")) ||
      (first == "eval" && argument.find("shell.bash hook") != std::string::npos);
  if (starts_conda) {
    state.remark(command.line, command.source,
                 "not needed: the job looks for conda on the PATH, in $CONDA_EXE and in usual "
                 "folders such as ~/miniforge3 and ~/miniconda3. If conda is elsewhere, export "
                 "CONDA_EXE before you submit");
    return true;
  }
  return is_source &&
         (argument_ends_with("/init/bash") || argument_ends_with("/profile.d/modules.sh") ||
          argument_ends_with("/profile.d/lmod.sh") || argument_ends_with("/etc/profile"));
}

/// Reads `conda activate NAME`, `source activate NAME` and `source DIR/bin/activate`.
bool import_activation(const ShellCommand& command, ImportState& state) {
  const auto words = texts_from(command, 0, state);
  if (!words) return false;
  if (words->size() == 3 && ((*words)[0] == "conda" || (*words)[0] == "source") &&
      (*words)[1] == "activate") {
    state.keys.set(
        {"environment.conda.name"_key, yaml_with_variables((*words)[2]), command.line, ""});
    return true;
  }
  constexpr std::string_view kActivate = "/bin/activate";
  if (words->size() == 2 && ((*words)[0] == "source" || (*words)[0] == ".") &&
      (*words)[1].ends_with(kActivate)) {
    std::string venv = (*words)[1].substr(0, (*words)[1].size() - kActivate.size());
    if (venv.find('/') == std::string::npos) venv.insert(0, "./");
    state.keys.set({"environment.venv"_key, yaml_with_variables(venv), command.line, ""});
    return true;
  }
  return false;
}

/// A variable that a command sets or exports.
struct AssignedVariable {
  std::string name;
  std::optional<std::string> value;  ///< nullopt: only the job knows the value, or it is a secret
  bool is_secret = false;
  std::vector<std::string> variables_used{};  ///< the names of the variables in the value
};

/// Sets the key of a variable that the job's programs get. Adds a remark instead if the variable
/// gets no key.
void export_variable(const ShellCommand& command, const AssignedVariable& variable,
                     ImportState& state) {
  const auto& [name, value, is_secret, variables_used] = variable;
  if (is_torch_variable(name)) {
    state.sets_torch_variables = true;
    return state.remark(command.line, command.source,
                        "the presets of torch.distributed, such as torch, set it for every rank");
  }
  if (name == "SRUN_CPUS_PER_TASK")
    return state.remark(command.line, command.source,
                        "dlrun gives srun the value of resources.cpus_per_task");
  if (is_secret) return state.add_secret(name, command.line, command.source);
  if (!value)
    return state.remark(command.line, command.source,
                        "only the job knows the value; environment.vars has fixed values");
  state.keys.set({"environment.vars." + name, yaml_with_variables(*value), command.line, ""});
}

/// Reads csh's `setenv NAME VALUE` of a secret. Returns false for any other command.
bool import_secret_setenv(const ShellCommand& command, ImportState& state) {
  if (command.words.size() != 3 || command.words.front().literal() != "setenv") return false;
  const std::string name = command.words[1].literal();
  const auto value = expanded_text(command.words[2], state);
  if (!is_variable_name(name) ||
      !(state.has_secret(name) || is_secret_variable(name, value.value_or(""))))
    return false;
  state.variables.erase(name);
  export_variable(command, {name, std::nullopt, true}, state);
  return true;
}

/// Returns the value without the job's variables in it: only the rest of the text can be a
/// password.
std::string without_job_variables(const std::string& job_text) {
  std::string text;
  const auto parts = split(job_text, kVariableMark);
  for (std::size_t i = 0; i < parts.size(); i += 2) text += parts[i];
  return text;
}

/// Reads NAME=VALUE, `export NAME=VALUE`, and `export NAME` of a variable that the script has set.
/// Returns false for any other command.
bool import_variables(const ShellCommand& command, ImportState& state) {
  const bool is_export = command.words.front().literal() == "export";
  const std::size_t first = is_export ? 1 : 0;
  if (command.words.size() == first) return false;
  const bool has_only_assignments =
      std::all_of(command.words.begin(), command.words.end(),
                  [](const ShellWord& word) { return assignment_of(word).has_value(); });
  if (!is_export && !has_only_assignments) return false;
  std::vector<AssignedVariable> found;
  for (std::size_t i = first; i < command.words.size(); ++i) {
    const ShellWord& word = command.words[i];
    if (auto assignment = assignment_of(word)) {
      auto value = expanded_text(assignment->value, state);
      auto job_text = value ? std::nullopt : job_text_of(assignment->value, state);
      const bool is_secret =
          state.has_secret(assignment->name) ||
          is_secret_variable(assignment->name,
                             value ? *value : without_job_variables(job_text.value_or("")));
      if (is_secret) {
        // A command that uses the variable must not bring the value into the spec. The ranks have
        // the variable, so the command keeps the variable's name.
        state.variables.erase(assignment->name);
        value.reset();
      } else {
        state.variables.insert_or_assign(assignment->name,
                                         ScriptVariable{value, std::move(job_text), command.line});
      }
      found.push_back({std::move(assignment->name), std::move(value), is_secret,
                       variables_in(assignment->value)});
      continue;
    }
    if (is_export && state.has_secret(word.literal())) continue;
    const auto known = state.variables.find(word.literal());
    if (!is_export || known == state.variables.end()) return false;
    const auto& value = known->second.value;
    found.push_back({known->first, value, is_secret_variable(known->first, value.value_or(""))});
  }
  for (const AssignedVariable& variable : found) {
    if (is_export || variable.is_secret) {
      export_variable(command, variable, state);
    } else if (is_torch_variable(variable.name)) {
      state.sets_torch_variables = true;
    } else if (!variable.value) {
      state.job_assignments.push_back(
          {variable.name, command.line, command.source, variable.variables_used});
    }
  }
  return true;
}

std::string yaml_list(const std::vector<std::string>& items) {
  std::vector<std::string> texts;
  for (const std::string& item : items) texts.push_back(yaml_with_variables(item));
  return "[" + join(texts, ", ") + "]";
}

/// Adds a remark on each of state.job_assignments. If an argument of the program needs the
/// variable, launch.command computes the value. Otherwise only an option of the launcher can need
/// it, and dlrun sets such an option itself.
void remark_on_job_assignments(ImportState& state) {
  auto needed = state.variables_of_program;
  // A value may need variables that earlier lines set.
  for (auto it = state.job_assignments.rbegin(); it != state.job_assignments.rend(); ++it) {
    if (needed.contains(it->name))
      needed.insert(it->variables_used.begin(), it->variables_used.end());
  }
  for (const auto& one : state.job_assignments) {
    state.remark(one.line, one.source,
                 needed.contains(one.name)
                     ? "launch.command contains this expression instead of the variable, and a "
                       "shell on each rank computes it"
                     : "only the job knows the value; launch.command does not need it");
  }
}

}  // namespace

bool import_preparation(const ShellCommand& command, ImportState& state) {
  if (command.words.empty()) return false;
  if (!command.tail.empty()) {
    // A redirection of the output does not change what the command sets. Any other tail, such as a
    // pipe, may change it.
    const auto sign = std::min(command.tail.find_first_not_of("0123456789"), command.tail.size());
    const std::string_view redirection = std::string_view(command.tail).substr(sign);
    const bool is_redirection = redirection.starts_with('>') || redirection.starts_with("&>");
    if (!is_redirection || command.tail.find('|') != std::string::npos) return false;
  }
  const std::string first = command.words.front().literal();
  if (first == "cd" && command.words.size() == 2) {
    const auto& parts = command.words[1].parts;
    const bool is_start_folder = !command.words[1].is_complex && parts.size() == 1 &&
                                 parts[0].is_variable &&
                                 (parts[0].text == "SLURM_SUBMIT_DIR" || parts[0].text == "PWD");
    if (is_start_folder) return true;  // a job of dlrun starts in the spec's folder
  }
  return import_module(command, state) || import_initialisation(command, state) ||
         import_activation(command, state) || import_secret_setenv(command, state) ||
         import_variables(command, state);
}

void mark_variables_unknown(const ShellCommand& command, ImportState& state) {
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const ShellWord& word = command.words[i];
    const bool is_loop = i > 0 && command.words[i - 1].source == "for";
    const bool is_unset = i > 0 && command.words[0].source == "unset";
    std::string name = is_loop || is_unset ? word.literal() : "";
    if (const auto assignment = assignment_of(word)) name = assignment->name;
    if (name.empty()) continue;
    state.variables.insert_or_assign(name,
                                     ScriptVariable{std::nullopt, std::nullopt, command.line});
    if (is_torch_variable(name)) state.sets_torch_variables = true;
  }
}

void finish_preparation(ImportState& state) {
  remark_on_job_assignments(state);
  if (!state.modules.empty())
    state.keys.set(
        {"environment.modules.load"_key, yaml_list(state.modules), state.modules_line, ""});
  if (!state.module_folders.empty())
    state.keys.set({"environment.modules.use"_key, yaml_list(state.module_folders),
                    state.module_folders_line, ""});
  if (!state.secret_names.empty())
    state.keys.set(
        {"environment.secrets"_key, yaml_list(state.secret_names), state.secrets_line, ""});
}

}  // namespace dlrun
