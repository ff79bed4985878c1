#include "launcher/import/script_import.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "launcher/import/import_state.h"
#include "launcher/plan/render.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/secret_words.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

/// A command that may start the ranks.
struct Candidate {
  const ShellCommand* command = nullptr;
  Launcher launcher = Launcher::kNone;
};

Result<> check_script(const ImportRequest& import) {
  if (!import.script.starts_with("#!")) {
    return fail(Errc::kInvalid,
                "{}: is not a job script: its first line must name a shell, such as #!/bin/bash",
                printable(import.script_name));
  }
  std::size_t line = 1;
  for (const char c : import.script) {
    if (c == '\n') ++line;
    if (!is_control(c) || c == '\n' || c == '\t') continue;
    return fail(Errc::kInvalid, "{}:{}: has the control character 0x{:02x}{}",
                printable(import.script_name), line, static_cast<unsigned char>(c),
                c == '\r' ? "; `sed -i 's/\\r$//' FILE` removes the line ends of DOS" : "");
  }
  for (const auto text : split(import.script, '\n')) {
    if (!text.starts_with(fmt::format("exec {} ", kLeadCommand))) continue;
    return fail(Errc::kInvalid,
                "{}: dlrun has made this script from a spec; use the spec (a run has it as "
                "spec.yaml), or submit the script itself: dlrun submit {}",
                printable(import.script_name), printable(import.script_name));
  }
  if (const auto separator_line = line_of_part_separator(import.script)) {
    return fail(Errc::kInvalid,
                "{}:{}: dlrun cannot import a heterogeneous job; write a spec with a component for "
                "each part (docs/components.md)",
                printable(import.script_name), *separator_line);
  }
  return {};
}

/// Returns a word with the values of the script's variables; the job's variables stay as $NAME.
/// Returns nullopt if a value is not known, or if the shell might change or split it.
std::optional<std::string> word_with_values(const ShellWord& word, const ImportState& state) {
  if (word.is_literal()) return word.source;
  const auto text = job_text_of(word, state);
  if (!text || text->empty() || text->find_first_of(" *?[\t\n") != std::string::npos)
    return std::nullopt;
  std::string shown;
  const auto pieces = split(*text, kVariableMark);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool is_variable = i % 2 == 1;
    const bool extends_name = !is_variable && i > 0 && !pieces[i].empty() &&
                              is_variable_name(fmt::format("_{}", pieces[i][0]));
    if (extends_name) return std::nullopt;
    if (is_variable) shown += fmt::format("${}", pieces[i]);
    if (!is_variable && !pieces[i].empty()) shown += shell_quote(pieces[i]);
  }
  return shown;
}

/// Returns the command as a line that does not need the variables of the script; "" if the command
/// uses none of them, or if such a line is not certain.
std::string line_with_values(const ShellCommand& command, const ImportState& state) {
  if (command.has_complex_operator || !command.tail.empty()) return "";
  bool has_script_variable = false;
  std::vector<std::string> words;
  for (const ShellWord& word : command.words) {
    for (const std::string& name : variables_in(word)) {
      const auto known = state.variables.find(name);
      has_script_variable |= known != state.variables.end() && known->second.line > 0;
    }
    auto shown = word_with_values(word, state);
    if (!shown) return "";
    words.push_back(std::move(*shown));
  }
  return has_script_variable ? join(words, " ") : "";
}

/// Returns the reason why the spec has no key for a command that is not the program of the job.
std::string reason_of(const ShellCommand& command, bool is_after_launch, const ImportState& state) {
  const std::string first = command.words.empty() ? "" : command.words.front().literal();
  if (command.is_nested)
    return "it is part of a condition, a loop, a function or a subshell, or of text that dlrun "
           "cannot follow";
  if (first == "module" || first == "ml")
    return "environment.modules runs purge, use and load in this order, once, at the start of the "
           "job";
  if (first == "cd") return "the job starts in the spec's folder; slurm.chdir sets another one";
  if (first == "set" || first == "exit" || first == "wait")
    return "the script that dlrun writes ends at its first error, and waits for the ranks";
  if (is_after_launch)
    return "dlrun runs nothing after the ranks; a second job with after.ok can run it";
  const std::string line = line_with_values(command, state);
  return fmt::format("environment.setup can run {} once, on the first node, before the ranks",
                     line.empty() ? "it" : fmt::format("`{}`", line));
}

/// Returns the launcher that the command calls, after words of the shell such as `then`.
Launcher launcher_inside(const ShellCommand& command) {
  ShellCommand rest = command;
  while (!rest.words.empty()) {
    const std::string& word = rest.words.front().source;
    const bool is_keyword = word == "then" || word == "do" || word == "else" || word == "{" ||
                            word == "if" || word == "while" || word == "!";
    if (!is_keyword) break;
    rest.words.erase(rest.words.begin());
  }
  return launcher_of(rest);
}

/// Returns the commands that may start the ranks: those with a launcher, or else the programs.
std::vector<Candidate> candidates_in(const std::vector<ShellCommand>& commands) {
  std::vector<Candidate> all;
  for (const ShellCommand& command : commands) {
    const Launcher launcher = launcher_inside(command);
    if (launcher != Launcher::kNone) all.push_back({&command, launcher});
  }
  const auto is_launcher = [](const Candidate& one) { return one.launcher != Launcher::kProgram; };
  if (std::any_of(all.begin(), all.end(), is_launcher))
    std::erase_if(all, [&](const Candidate& one) { return !is_launcher(one); });
  return all;
}

tl::unexpected<Error> no_program_error(const ImportRequest& import, std::size_t line,
                                       const std::string& why) {
  return fail(Errc::kInvalid,
              "{}{}: {}; give the program of the job after --: dlrun init --from {} -- python "
              "train.py",
              printable(import.script_name), line > 0 ? fmt::format(":{}", line) : "",
              mask_secrets(why).text, printable(import.script_name));
}

/// Returns the one command that starts the ranks.
/// - If the user gives no program after `--` (import.command is empty): fails with kInvalid if the
///   script has no such command or several, or if the command is nested.
/// - If the user gives a program: returns nullptr in these cases, and also for a command without a
///   launcher.
Result<const ShellCommand*> launch_of(const ImportRequest& import,
                                      const std::vector<Candidate>& candidates) {
  if (!import.command.empty()) {
    const bool is_usable = candidates.size() == 1 && !candidates.front().command->is_nested &&
                           candidates.front().launcher != Launcher::kProgram;
    return is_usable ? candidates.front().command : nullptr;
  }
  if (candidates.empty())
    return no_program_error(import, 0, "no line starts a program in a way that dlrun recognises");
  if (candidates.size() > 1) {
    std::vector<std::string> lines;
    for (const Candidate& one : candidates) lines.push_back(fmt::format("{}", one.command->line));
    return no_program_error(
        import, 0,
        fmt::format("the lines {} start programs, and a spec starts only one", join(lines, ", ")));
  }
  const ShellCommand* command = candidates.front().command;
  if (command->is_nested)
    return no_program_error(import, command->line,
                            "the program is started in a condition, a loop, a function or a "
                            "subshell, or in text that dlrun cannot follow");
  return command;
}

/// Adds a remark on a command that has no key. The commands of one block share a remark.
/// previous: the command before this one.
void remark_on(const ShellCommand& command, const ShellCommand* previous, std::string_view reason,
               ImportState& state) {
  const bool is_same_block = command.is_nested && previous != nullptr && previous->is_nested;
  if (is_same_block && !state.remarks.empty()) {
    state.remarks.back().last_line = command.line;
  } else {
    state.remark(command.line, command.source, reason);
  }
}

/// Adds a remark if the program has a secret among its arguments. The program needs its arguments,
/// so the spec has them nevertheless.
void remark_on_secret_arguments(const ShellCommand& launch, ImportState& state) {
  if (!mask_secrets(state.command_text).had_secret) return;
  if (mask_secrets(launch.source).had_secret) {
    state.remark(launch.line, launch.source, "launch.command has this line as it is");
  } else {
    state.remark_on_secret(
        launch.line, launch.source,
        fmt::format("launch.command has this line with the values of the script's variables; {}",
                    kSecretWordAdvice));
  }
  state.remarks.back().is_in_spec = true;
}

/// Adds a remark if the program has arguments that need a variable of Slurm, such as SLURM_JOB_ID.
void remark_on_slurm_variables(const ShellCommand& launch, ImportState& state) {
  std::vector<std::string> names;
  for (const std::string& name : state.variables_of_program) {
    if (name.starts_with("SLURM_") && !state.variables.contains(name)) names.push_back(name);
  }
  if (names.empty()) return;
  const bool has_job_id = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "SLURM_JOB_ID" || name == "SLURM_JOBID";
  });
  state.remark(
      launch.line, launch.source,
      fmt::format("{} {} empty under `dlrun run`, where no Slurm sets variables{}",
                  join(names, ", "), names.size() == 1 ? "is" : "are",
                  has_job_id ? "; in place of the job's id, you can use the folder of the run, "
                               "$DLRUN_RUN ($${DLRUN_RUN} in the spec)"
                             : ""));
  state.remarks.back().is_in_spec = true;
}

/// Returns true if the words call a launcher that the import reads, such as torchrun.
bool calls_launcher(const std::vector<std::string>& words) {
  ShellCommand command;
  for (const std::string& word : words)
    command.words.push_back({{{word, false, true}}, word, false});
  const Launcher launcher = launcher_of(command);
  return launcher != Launcher::kNone && launcher != Launcher::kProgram;
}

/// Sets the keys of the launcher and its options from the command that starts the script's program.
/// launch.command becomes the program after `--`, not the script's. Returns false, and sets no key,
/// if the meaning of the options is not certain.
bool import_only_launcher(const ImportRequest& import, const ShellCommand& command,
                          ImportState& state) {
  ImportState with_launcher = state;
  with_launcher.given_program = import.command;
  const auto obstacle = calls_launcher(import.command)
                            ? ImportObstacle("that program has a launcher of its own")
                            : import_launch(command, with_launcher);
  if (!obstacle) state = std::move(with_launcher);
  const std::string reason =
      obstacle ? fmt::format(
                     "launch.command is the program after `--`, and nothing is from this "
                     "line: {}",
                     *obstacle)
               : "launch.command is the program after `--`; only the keys of the launcher and its "
                 "options are from this line";
  state.remark(command.line, command.source, reason);
  return !obstacle;
}

/// Reads the command that starts the ranks. If the meaning of the command is not certain, returns
/// false for a user who gives a program after `--` (another line may start the ranks), and fails
/// with kInvalid for a user who gives none.
Result<bool> read_launch(const ImportRequest& import, const ShellCommand& command,
                         ImportState& state) {
  if (!import.command.empty()) return import_only_launcher(import, command, state);
  if (const auto why = import_launch(command, state))
    return no_program_error(import, command.line, *why);
  remark_on_secret_arguments(command, state);
  remark_on_slurm_variables(command, state);
  return true;
}

/// Reads all commands. launch: the result of launch_of().
Result<> read_commands(const ImportRequest& import, const std::vector<ShellCommand>& commands,
                       const std::vector<Candidate>& candidates, const ShellCommand* launch,
                       ImportState& state) {
  const auto is_replaced = [&](const ShellCommand& command) {
    return !command.is_nested &&
           std::any_of(candidates.begin(), candidates.end(),
                       [&](const Candidate& one) { return one.command == &command; });
  };
  bool is_after_launch = false;
  const ShellCommand* previous = nullptr;
  for (const ShellCommand& command : commands) {
    if (&command == launch) {
      DLRUN_TRY_ASSIGN(is_after_launch, read_launch(import, command, state));
    } else if (command.is_nested || command.has_complex_operator || is_after_launch ||
               !import_preparation(command, state)) {
      if (!is_after_launch) mark_variables_unknown(command, state);
      remark_on(command, previous,
                is_replaced(command)
                    ? "launch.command is the program after `--`, and a spec starts one program"
                    : reason_of(command, is_after_launch, state),
                state);
    }
    previous = &command;
  }
  finish_preparation(state);
  return {};
}

/// Sets the name if the script gives none, and the site. Sets resources.tasks_per_node to sbatch's
/// default if the script gives no number of ranks, because dlrun's default is one rank for each
/// GPU.
void set_defaults(const ImportRequest& import, ImportState& state) {
  ImportedKeys& keys = state.keys;
  if (keys.find("name") == nullptr) {
    const std::string stem = std::filesystem::path(import.script_name).stem().string();
    if (is_slug(stem)) keys.set({"name", yaml_text(stem), 0, "the script's name"});
  }
  if (!import.site.empty()) keys.set({"site", yaml_text(import.site), 0, ""});
  const ImportedKey* preset = keys.find("launch.preset"_key);
  const bool is_torchrun = preset != nullptr && preset->yaml == "torchrun";
  const bool has_ranks = keys.find("resources.ntasks"_key) != nullptr ||
                         keys.find("resources.tasks_per_node"_key) != nullptr ||
                         keys.find("slurm.ntasks-per-gpu") != nullptr;
  if (!has_ranks && !is_torchrun)
    keys.set({"resources.tasks_per_node"_key, "1", 0, "sbatch's default"});
}

/// Returns the numbers of a remark's lines: "12", or "12 to 15".
std::string line_numbers_text(const ImportRemark& remark) {
  return remark.last_line > remark.line ? fmt::format("{} to {}", remark.line, remark.last_line)
                                        : fmt::format("{}", remark.line);
}

/// Returns comments that list the lines that the spec does not have or has in another form.
std::string remarks_text(const ImportRequest& import, const std::vector<ImportRemark>& remarks) {
  std::string text;
  std::string reason;
  for (const ImportRemark& remark : remarks) {
    if (remark.is_in_spec) continue;
    if (text.empty())
      text = fmt::format("\n# Lines of {} that this spec does not have, or has in another form:\n",
                         printable(import.script_name));
    if (remark.reason != reason) text += fmt::format("# {}:\n", printable(remark.reason));
    reason = remark.reason;
    text += fmt::format("#   {}: {}\n", line_numbers_text(remark), printable(remark.source));
  }
  return text;
}

std::string spec_text(const ImportRequest& import, ImportState& state) {
  std::stable_sort(state.remarks.begin(), state.remarks.end(),
                   [](const auto& a, const auto& b) { return a.line < b.line; });
  return fmt::format(
      "# Made from {} by dlrun init. The comments refer to the lines of the script.\n{}{}",
      printable(import.script_name), state.keys.yaml(), remarks_text(import, state.remarks));
}

/// Returns the key that an error is about if the import has set this key; nullopt otherwise. For an
/// item of a list, returns the list's key.
std::optional<std::string> imported_key_of(const ImportState& state, const Diagnostic& problem) {
  const std::string key = problem.key.substr(0, problem.key.find('['));
  if (state.keys.find(key) != nullptr) return key;
  return std::nullopt;
}

/// Removes a key. Returns the key and its line of the script. For a key without a line, the second
/// value is the path of the key.
std::pair<ImportedKey, std::string> remove_key(const ImportRequest& import, std::string_view path,
                                               ImportState& state) {
  ImportedKey key = state.keys.remove(path).value_or(ImportedKey{std::string(path), "", 0, ""});
  const auto sources = split(import.script, '\n');
  const bool has_line = key.line > 0 && key.line <= sources.size();
  std::string source = has_line ? std::string(trim(sources[key.line - 1])) : key.path;
  return {std::move(key), std::move(source)};
}

/// Moves each key with a secret to the remarks. Returns true if there was one. launch.command keeps
/// its words; remark_on_secret_arguments() has added a remark if they come from the script.
bool remove_keys_with_secrets(const ImportRequest& import, ImportState& state) {
  std::vector<std::string> paths;
  for (const ImportedKey& key : state.keys.all()) {
    const auto name = std::string_view(key.path).substr(key.path.rfind('.') + 1);
    // The name of an option may tell that the value is a secret.
    const bool has_secret = mask_secrets(key.yaml).had_secret ||
                            mask_secrets(fmt::format("--{}={}", name, key.yaml)).had_secret;
    if (has_secret && key.path != "launch.command"_key) paths.push_back(key.path);
  }
  for (const std::string& path : paths) {
    const auto [key, source] = remove_key(import, path, state);
    state.remark_on_secret(
        key.line, source,
        "its name or value looks like a secret, so the value is not copied: pass it to the "
        "program as a variable, and name the variable in environment.secrets");
  }
  return !paths.empty();
}

/// Returns the problems without the secrets of their texts.
std::vector<Diagnostic> masked_problems(std::vector<Diagnostic> problems) {
  for (Diagnostic& problem : problems) {
    problem.message = mask_secrets(problem.message).text;
    // The caret below the line would be in the wrong column if "..." replaced the secret.
    if (mask_secrets(problem.line.text).text != problem.line.text) problem.line.text.clear();
  }
  return problems;
}

/// Moves each key with an error, except launch.command, to the remarks, with the message of the
/// error. Fails with the problems if there is no such key.
Result<> remove_refused_keys(const ImportRequest& import, const std::vector<Diagnostic>& problems,
                             ImportState& state) {
  bool is_changed = false;
  for (const Diagnostic& problem : problems) {
    if (!is_error(problem)) continue;
    const auto key = imported_key_of(state, problem);
    if (!key || *key == "launch.command") continue;
    const auto [removed, source] = remove_key(import, *key, state);
    is_changed = true;
    state.remark(removed.line, source, printable(problem.message));
  }
  if (is_changed) return {};
  return fail(Errc::kInvalid, masked_problems(problems));
}

std::vector<Diagnostic> diagnostics_of(const ImportRequest& import,
                                       const std::vector<ImportRemark>& remarks) {
  std::vector<Diagnostic> all;
  for (const ImportRemark& remark : remarks) {
    Diagnostic one;
    one.severity = Diagnostic::Severity::kWarning;
    one.where = {Origin::Kind::kFile, import.script_name, static_cast<int>(remark.line), 1};
    one.message = fmt::format("{}: {}", remark.source, remark.reason);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

Result<ImportedSpec> import_script(const ImportRequest& import) {
  DLRUN_TRY(check_script(import));
  ImportState state;
  import_directives(import.script, state);
  add_slurm_variables_from_keys(state);
  const auto commands = read_shell(import.script);
  const auto candidates = candidates_in(commands);
  DLRUN_TRY_ASSIGN(const ShellCommand* launch, launch_of(import, candidates));
  DLRUN_TRY(read_commands(import, commands, candidates, launch, state));
  if (state.keys.find("launch.command"_key) == nullptr)
    set_command_and_preset(import.command, preset_of_srun(state), 0, state);
  set_defaults(import, state);
  LoadRequest request = import.load;
  while (true) {
    request.text = spec_text(import, state);
    auto loaded = load_spec(request);
    if (loaded) {
      if (remove_keys_with_secrets(import, state)) continue;
      return ImportedSpec{*request.text, diagnostics_of(import, state.remarks),
                          masked_problems(std::move(loaded->warnings))};
    }
    DLRUN_TRY(remove_refused_keys(import, loaded.error(), state));
  }
}

}  // namespace dlrun
