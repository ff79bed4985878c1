#pragma once
// The state of one import: the keys that were found, the remarks about the other lines, and the
// variables of the script. Only launcher/import includes this file.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/import/shell_text.h"
#include "launcher/spec/spec_keys.h"

namespace dlrun {

/// The reason why the meaning of a command is not certain; nullopt: the meaning is certain.
using ImportObstacle = std::optional<std::string>;

/// A remark on a line of the script: the reason why the spec does not have the line or has it in
/// another form, or a warning about a line that the spec has (is_in_spec).
struct ImportRemark {
  std::size_t line = 0;
  std::size_t last_line = 0;  ///< for a block of lines: its last line; otherwise 0
  std::string source;         ///< the line, without the values of secrets
  std::string reason;
  /// True: the spec has the line as it is, or with the values of its variables. The remark is then
  /// only a warning on the terminal; the comments of the spec leave it out.
  bool is_in_spec = false;
};

/// A value of the new spec.
struct ImportedKey {
  std::string path;      ///< "resources.nodes", "slurm.mail-type"
  std::string yaml;      ///< the value as one line of YAML
  std::size_t line = 0;  ///< the line of the script; 0: the value is from no line
  std::string comment;   ///< shown instead of the line's number, if it is not empty
};

/// The values of the new spec.
class ImportedKeys {
 public:
  /// Sets a value. A later value replaces an earlier one, as in sbatch.
  void set(ImportedKey key);
  [[nodiscard]] const ImportedKey* find(std::string_view path) const;
  [[nodiscard]] const std::vector<ImportedKey>& all() const { return keys_; }
  /// Removes a value and returns it; nullopt if there is none.
  std::optional<ImportedKey> remove(std::string_view path);
  /// Returns the values as YAML, in the order of the key table, with the script's lines as
  /// comments.
  [[nodiscard]] std::string yaml() const;

 private:
  std::vector<ImportedKey> keys_;
};

/// Stands before and after the name of a variable that the import does not replace by its value:
/// HOME or USER, which dlrun replaces when it reads the spec, and the variables of
/// ScriptVariable::job_text. A script never contains this character.
inline constexpr char kVariableMark = '\x01';

/// Returns the text as YAML. A name between two kVariableMark becomes ${NAME}.
[[nodiscard]] std::string yaml_with_variables(std::string_view text);

/// A variable that the script or Slurm sets.
struct ScriptVariable {
  std::optional<std::string> value;  ///< nullopt: only the job knows the value
  /// Used if `value` is nullopt: the value as text that keeps the variables of the job, each
  /// between two kVariableMark. nullopt: not known, or the ranks may have different values.
  std::optional<std::string> job_text;
  std::size_t line = 0;  ///< the line that sets the variable; 0: Slurm sets it
};

/// An assignment of a variable whose value only the job knows, and which the script does not
/// export.
struct JobAssignment {
  std::string name;
  std::size_t line = 0;
  std::string source;                       ///< the command
  std::vector<std::string> variables_used;  ///< the names of the variables in the value
};

struct ImportState {
  ImportedKeys keys;
  std::vector<ImportRemark> remarks;
  std::map<std::string, ScriptVariable, std::less<>> variables;
  std::vector<JobAssignment> job_assignments;  ///< in the order of the script
  /// The variables among the words of launch.command and in their values, if a shell on each rank
  /// expands these words.
  std::set<std::string, std::less<>> variables_of_program;
  /// The program that the user gives instead of the script's; empty: the script's program.
  std::vector<std::string> given_program;
  std::vector<std::string> modules, module_folders, secret_names;
  /// The line that added the first item to the list; 0: none.
  std::size_t modules_line = 0, module_folders_line = 0, secrets_line = 0;
  /// The script sets a variable that the presets of torch.distributed set, such as MASTER_ADDR.
  bool sets_torch_variables = false;

  /// The words of launch.command, with blanks between them.
  std::string command_text;

  /// Adds a remark, without the secrets of its texts. If the line has a secret, adds advice to the
  /// reason.
  void remark(std::size_t line, std::string_view source, std::string_view reason);
  /// Adds a remark whose reason already says what to do with the secret of the line.
  void remark_on_secret(std::size_t line, std::string_view source, std::string reason);
  /// Adds a variable to environment.secrets, removes its value from the keys, and adds a remark.
  void add_secret(const std::string& name, std::size_t line, std::string_view source);
  /// Returns true if add_secret() has added the variable.
  [[nodiscard]] bool has_secret(std::string_view name) const;
};

/// Returns the words that the shell makes of one word: usually one; several if an unquoted variable
/// has blanks, none if the variable is empty. Returns nullopt if only the job knows the words, or
/// if they cannot be told without running a shell.
[[nodiscard]] std::optional<std::vector<std::string>> expanded(const ShellWord& word,
                                                               const ImportState& state);
/// Returns the word as one text; nullopt if expanded() returns nullopt, no word or several words.
[[nodiscard]] std::optional<std::string> expanded_text(const ShellWord& word,
                                                       const ImportState& state);

/// Returns the word as text in the form of ScriptVariable::job_text; nullopt if the word's value is
/// not known, or if the ranks may have different values.
[[nodiscard]] std::optional<std::string> job_text_of(const ShellWord& word,
                                                     const ImportState& state);
/// Returns true for a variable of Slurm or the shell whose value in a rank differs from its value
/// in the script.
[[nodiscard]] bool is_variable_of_rank(std::string_view name);

/// Returns the names of the variables in the word.
[[nodiscard]] std::vector<std::string> variables_in(const ShellWord& word);

struct Assignment {
  std::string name;
  ShellWord value;
};
/// Returns the name and the value of a word such as NAME=VALUE; nullopt for any other word.
[[nodiscard]] std::optional<Assignment> assignment_of(const ShellWord& word);

/// Sets keys from the #SBATCH lines.
void import_directives(std::string_view script, ImportState& state);
/// Adds the variables that Slurm will set, such as SLURM_NTASKS, to the known variables. Their
/// values follow from the keys.
void add_slurm_variables_from_keys(ImportState& state);

/// Reads a command that prepares the job: modules, conda, variables. Returns false for any other
/// command, and for one that no key of a spec can express, such as `module swap`.
[[nodiscard]] bool import_preparation(const ShellCommand& command, ImportState& state);
/// Marks as unknown the variables that the command may set: the import cannot tell whether the
/// command runs.
void mark_variables_unknown(const ShellCommand& command, ImportState& state);
/// Sets the keys of modules and secrets from the lists that import_preparation() has collected.
/// Adds the remarks on state.job_assignments. Call this after import_launch().
void finish_preparation(ImportState& state);

/// The program that starts the ranks in a script. kNone: the command starts no ranks.
enum class Launcher { kNone, kProgram, kSrun, kMpirun, kHorovodrun, kTorchrun };
/// Returns the launcher that a command calls. kProgram: the command starts a program directly.
[[nodiscard]] Launcher launcher_of(const ShellCommand& command);
/// Sets keys of the spec from the command that starts the ranks. Returns nullopt on success.
/// Returns the reason if the command has no certain meaning; the keys are then incomplete. If
/// state.given_program has a program, only the launcher and its options are from the command.
[[nodiscard]] ImportObstacle import_launch(const ShellCommand& command, ImportState& state);
/// Sets launch.command to the words, and launch.preset to `preset`. Keeps the words in
/// state.command_text. line: the line of the script that determines the preset. The words are from
/// the same line if state.given_program is empty.
void set_command_and_preset(const std::vector<std::string>& words, std::string_view preset,
                            std::size_t line, ImportState& state);
/// Returns the preset of a program that srun starts: torch if the script sets the variables of
/// torch.distributed, else plain.
[[nodiscard]] std::string preset_of_srun(const ImportState& state);

}  // namespace dlrun
