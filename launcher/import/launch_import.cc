// Reads the command that starts the ranks: srun with its options and those of pyxis, mpirun,
// horovodrun, torchrun, or the program itself.

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "launcher/import/import_state.h"
#include "launcher/import/launcher_options.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/secret_words.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

std::string base_name(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

bool is_python(std::string_view word) {
  return base_name(word).starts_with("python");
}

/// Returns the position of the first word that is neither an assignment (NAME=VALUE) nor `exec` or
/// `time`.
std::size_t position_of_called_program(const ShellCommand& command) {
  std::size_t at = 0;
  while (at < command.words.size() &&
         (assignment_of(command.words[at]) || command.words[at].source == "exec" ||
          command.words[at].source == "time"))
    ++at;
  return at;
}

/// Returns the words of the command from this position on. An empty text stands for each word that
/// is not literal.
std::vector<std::string> literals_from(const ShellCommand& command, std::size_t from) {
  std::vector<std::string> words;
  for (std::size_t i = from; i < command.words.size(); ++i)
    words.push_back(command.words[i].literal());
  return words;
}

/// Returns how many words at the start of a command call torchrun: 1 for `torchrun`, 3 for `python
/// -m torch.distributed.run` (or .launch), one more for each -u. Returns 0 for any other command.
std::size_t torchrun_word_count(std::span<const std::string> words) {
  if (words.empty()) return 0;
  if (base_name(words[0]) == "torchrun") return 1;
  for (std::size_t at = 1; at + 1 < words.size() && is_python(words[0]); ++at) {
    if (words[at] == "-u") continue;
    const bool is_module = words[at] == "-m" && (words[at + 1] == "torch.distributed.run" ||
                                                 words[at + 1] == "torch.distributed.launch");
    return is_module ? at + 2 : 0;
  }
  return 0;
}

/// Returns the words that the shell makes of the value of an unquoted variable, each quoted, so
/// that the shell on each rank makes the same words again. is_whole_word: no text stands beside the
/// variable. Returns nullopt if the value has a pattern of file names, a tab or a line break, or if
/// it has a blank and text stands beside the variable.
std::optional<std::string> quoted_words_of(const std::string& value, bool is_whole_word) {
  if (value.find_first_of("*?[\t\n") != std::string::npos) return std::nullopt;
  if (!is_whole_word && value.find(' ') != std::string::npos) return std::nullopt;
  std::string words;
  for (const auto word : split(value, ' ')) {
    if (!word.empty()) words += (words.empty() ? "" : " ") + shell_quote(word);
  }
  return words;
}

/// Returns the value of a variable as text for a shell on each rank. is_quoted: the variable is in
/// quotes. is_whole_word: no text stands beside the variable. Returns nullopt if the words that the
/// shell makes of the value are not certain, or if a variable in the value has another value now.
std::optional<std::string> shell_text_of_value(const std::string& value, bool is_quoted,
                                               bool is_whole_word, const ImportState& state) {
  const auto pieces = split(value, kVariableMark);
  if (pieces.size() == 1)
    return is_quoted ? std::optional(shell_quote(value)) : quoted_words_of(value, is_whole_word);
  std::string text;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i % 2 == 1) {
      if (state.variables.contains(pieces[i])) return std::nullopt;
      const std::string variable = fmt::format("${{{}}}", pieces[i]);
      text += is_quoted ? "\"" + variable + "\"" : variable;
    } else if (!is_quoted && pieces[i].find_first_of(" *?[\t\n") != std::string_view::npos) {
      return std::nullopt;
    } else if (!pieces[i].empty()) {
      text += shell_quote(pieces[i]);
    }
  }
  return text;
}

/// Returns the word as text for a shell on each rank. Variables that only the job knows stay
/// variables. Returns nullopt if the text would differ between ranks, or is not known.
std::optional<std::string> shell_text(const ShellWord& word, const ImportState& state) {
  if (word.is_complex) return std::nullopt;
  std::string text;
  for (const ShellPart& part : word.parts) {
    if (!part.is_variable) {
      text += part.text.empty() && word.parts.size() > 1 ? "" : shell_quote(part.text);
      continue;
    }
    const auto known = state.variables.find(part.text);
    if (known == state.variables.end()) {
      if (is_variable_of_rank(part.text)) return std::nullopt;
      text += part.is_quoted ? fmt::format("\"${{{}}}\"", part.text)
                             : fmt::format("${{{}}}", part.text);
      continue;
    }
    const auto& [value, job_text, line] = known->second;
    if (!value && !job_text) return std::nullopt;
    const auto one = shell_text_of_value(value ? *value : *job_text, part.is_quoted,
                                         word.parts.size() == 1, state);
    if (!one) return std::nullopt;
    text += *one;
  }
  return text;
}

/// Call this if shell_text() returns nullopt for the word. Returns " (line 5 sets OUT)" if the
/// reason is a variable that a line of the script sets; otherwise "".
std::string unknown_variable_text(const ShellWord& word, const ImportState& state) {
  for (const ShellPart& part : word.parts) {
    const auto known = state.variables.find(part.text);
    if (!part.is_variable || known == state.variables.end() || known->second.line == 0) continue;
    ShellWord alone;
    alone.parts.push_back(part);
    if (!shell_text(alone, state))
      return fmt::format(" (line {} sets {})", known->second.line, part.text);
  }
  return "";
}

/// Adds the variables of the word, and the variables in their values, to
/// state.variables_of_program.
void add_variables_of_program(const ShellWord& word, ImportState& state) {
  for (const std::string& name : variables_in(word)) {
    state.variables_of_program.insert(name);
    const auto known = state.variables.find(name);
    if (known == state.variables.end() || !known->second.job_text) continue;
    const auto pieces = split(*known->second.job_text, kVariableMark);
    for (std::size_t i = 1; i < pieces.size(); i += 2)
      state.variables_of_program.insert(std::string(pieces[i]));
  }
}

/// Sets launch.command to the words of the program, with `before` in front. If only the job knows
/// some words, sets it to a shell line that has the same variables. Returns the reason if not even
/// this is possible. If state.given_program is not empty, sets launch.command to it.
ImportObstacle set_program(std::span<const ShellWord> words, std::vector<std::string> before,
                           std::string_view preset, std::size_t line, ImportState& state) {
  if (!state.given_program.empty()) {
    set_command_and_preset(state.given_program, preset, line, state);
    return std::nullopt;
  }
  if (words.empty()) return "it starts no program";
  std::vector<std::string> all = before;
  bool is_known = true;
  for (const ShellWord& word : words) {
    const auto texts = expanded(word, state);
    is_known = is_known && texts.has_value();
    if (texts) all.insert(all.end(), texts->begin(), texts->end());
  }
  if (is_known) {
    set_command_and_preset(all, preset, line, state);
    return std::nullopt;
  }
  std::string text = "exec";
  for (const std::string& word : before) text += " " + shell_quote(word);
  std::string option;
  for (const ShellWord& word : words) {
    const auto one = shell_text(word, state);
    // The message shows the option before the word, so that mask_secrets() can hide the value of
    // an option such as --token.
    if (!one)
      return fmt::format("only the job knows what its shell makes of {}{}{}", printable(option),
                         printable(word.source), unknown_variable_text(word, state));
    text += " " + *one;
    add_variables_of_program(word, state);
    option = word.source.starts_with('-') ? word.source + " " : "";
  }
  set_command_and_preset({"bash", "-c", text}, preset, line, state);
  return std::nullopt;
}

/// Reads the words after `torchrun`: its options, and the script.
ImportObstacle import_torchrun(const ShellCommand& command, std::size_t from, ImportState& state) {
  LauncherOptionReader reader(command, from, state);
  bool is_module = false, is_without_python = false;
  if (auto why = reader.read_torchrun_options(is_module, is_without_python)) return why;
  std::vector<std::string> before;
  // torchrun runs scripts with its own interpreter, which may not have the name `python`: Debian,
  // for example, has only python3.
  if (!is_without_python) before = {"python3", "-u"};
  if (is_module) before.emplace_back("-m");
  return set_program(reader.program_words(), std::move(before), "torchrun", command.line, state);
}

ImportObstacle import_srun(const ShellCommand& command, std::size_t from, ImportState& state) {
  LauncherOptionReader reader(command, from, state);
  if (auto why = reader.read_srun_options()) return why;
  const auto words = literals_from(command, reader.program_position());
  if (const std::size_t torchrun = torchrun_word_count(words); torchrun > 0)
    return import_torchrun(command, reader.program_position() + torchrun, state);
  return set_program(reader.program_words(), {}, preset_of_srun(state), command.line, state);
}

ImportObstacle import_mpirun(const ShellCommand& command, std::size_t from, std::string_view preset,
                             ImportState& state) {
  LauncherOptionReader reader(command, from, state);
  if (auto why = reader.read_mpirun_options()) return why;
  return set_program(reader.program_words(), {}, preset, command.line, state);
}

/// Adds a remark if the script starts the program once and the spec starts it several times.
/// variable: Slurm's variable that tells how often the spec starts the program. unit: the noun for
/// this number in the remark, such as "ranks".
void remark_on_starts(const ShellCommand& command, const char* variable, std::string_view unit,
                      ImportState& state) {
  const auto known = state.variables.find(variable);
  if (known == state.variables.end() || known->second.value.value_or("1") == "1") return;
  state.remark(command.line, command.source,
               fmt::format("the script starts the program once, on the first node; the spec starts "
                           "it once for each of the {} {}",
                           *known->second.value, unit));
}

/// Returns the program that srun starts; "" if it is not known.
std::string program_of_srun(const ShellCommand& command, std::size_t from) {
  ImportState scratch;
  LauncherOptionReader reader(command, from, scratch);
  if (reader.read_srun_options() || reader.program_words().empty()) return "";
  return base_name(reader.program_words().front().literal());
}

/// Returns true for programs that only show or prepare something. A command `srun PROGRAM` with
/// such a program does not count as the start of the ranks.
bool is_auxiliary(std::string_view program) {
  constexpr std::array<std::string_view, 12> kAuxiliary{
      "hostname", "nvidia-smi", "rocm-smi", "echo",  "date", "env",
      "printenv", "sleep",      "lscpu",    "mkdir", "cp",   "rm"};
  return std::find(kAuxiliary.begin(), kAuxiliary.end(), program) != kAuxiliary.end();
}

/// Returns true if the words start a program of the user. Call this only for words that do not call
/// one of the launchers srun, mpirun, horovodrun and torchrun.
bool is_program(std::span<const std::string> words) {
  constexpr std::array<std::string_view, 8> kPrograms{"julia",      "Rscript",   "deepspeed",
                                                      "accelerate", "apptainer", "singularity",
                                                      "shifter",    "ch-run"};
  const std::string name = base_name(words[0]);
  const bool has_argument = words.size() > 1;
  if (is_python(name)) {
    return has_argument && words[1] != "-c" && words[1] != "-V" && words[1] != "--version";
  }
  if (name == "bash" || name == "sh") return has_argument;
  return words[0].find('/') != std::string::npos ||
         std::find(kPrograms.begin(), kPrograms.end(), name) != kPrograms.end();
}

/// Returns the obstacle if the command has more than the program, such as a pipe or a redirected
/// input, and the spec cannot express this. Accepts a redirected output and pipes to `tee`.
ImportObstacle obstacle_around_program(const ShellCommand& command) {
  if (command.has_complex_operator)
    return "it is joined with other commands, runs in the background, or has a parenthesis or a "
           "here-document";
  if (command.tail.find('<') != std::string::npos) return "its standard input is redirected";
  const auto stages = split(command.tail, '|');
  const bool has_only_tee =
      std::all_of(stages.begin() + 1, stages.end(),
                  [](std::string_view stage) { return trim(stage).starts_with("tee "); });
  if (!has_only_tee) return "another program reads its output";
  return std::nullopt;
}

}  // namespace

Launcher launcher_of(const ShellCommand& command) {
  const std::size_t first = position_of_called_program(command);
  if (first == command.words.size()) return Launcher::kNone;
  const auto words = literals_from(command, first);
  const std::string name = base_name(words[0]);
  if (name == "srun")
    return is_auxiliary(program_of_srun(command, first + 1)) ? Launcher::kNone : Launcher::kSrun;
  if (name == "mpirun" || name == "mpiexec") return Launcher::kMpirun;
  if (name == "horovodrun") return Launcher::kHorovodrun;
  if (torchrun_word_count(words) > 0) return Launcher::kTorchrun;
  return is_program(words) ? Launcher::kProgram : Launcher::kNone;
}

std::string preset_of_srun(const ImportState& state) {
  return state.sets_torch_variables ? "torch" : "plain";
}

void set_command_and_preset(const std::vector<std::string>& words, std::string_view preset,
                            std::size_t line, ImportState& state) {
  std::vector<std::string> texts;
  for (const std::string& word : words) texts.push_back(yaml_with_variables(word));
  state.command_text = join(words, " ");
  state.keys.set({"launch.preset"_key, std::string(preset), line,
                  preset == "plain" ? "starts the program once for each rank, as srun does" : ""});
  const std::size_t line_of_words = state.given_program.empty() ? line : 0;
  state.keys.set({"launch.command"_key, "[" + join(texts, ", ") + "]", line_of_words, ""});
}

ImportObstacle import_launch(const ShellCommand& command, ImportState& state) {
  if (state.given_program.empty()) {
    if (auto why = obstacle_around_program(command)) return why;
  }
  const std::size_t first = position_of_called_program(command);
  for (std::size_t i = 0; i < first; ++i) {
    const auto assignment = assignment_of(command.words[i]);
    if (!assignment) continue;
    const auto value = expanded_text(assignment->value, state);
    if (is_secret_variable(assignment->name, value.value_or(""))) {
      state.add_secret(assignment->name, command.line, command.source);
      continue;
    }
    if (!value) return fmt::format("only the job knows the value of {}", assignment->name);
    state.keys.set(
        {"environment.vars." + assignment->name, yaml_with_variables(*value), command.line, ""});
  }
  if (!command.tail.empty() && state.given_program.empty())
    state.remark(command.line, command.tail,
                 "`dlrun logs` shows the output; resources.output chooses another file");
  switch (launcher_of(command)) {
    case Launcher::kSrun:
      return import_srun(command, first + 1, state);
    case Launcher::kMpirun:
      return import_mpirun(command, first + 1, "mpi", state);
    case Launcher::kHorovodrun:
      return import_mpirun(command, first + 1, "horovod", state);
    case Launcher::kTorchrun: {
      remark_on_starts(command, "SLURM_NNODES", "nodes", state);
      const auto words = literals_from(command, first);
      return import_torchrun(command, first + torchrun_word_count(words), state);
    }
    case Launcher::kProgram:
      remark_on_starts(command, "SLURM_NTASKS", "ranks", state);
      return set_program(std::span(command.words).subspan(first), {}, preset_of_srun(state),
                         command.line, state);
    case Launcher::kNone:
      break;
  }
  return "it starts no program that dlrun recognises";
}

}  // namespace dlrun
