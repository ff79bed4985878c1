#pragma once
// Reads the options of srun, mpirun and torchrun that stand before the user's program. Only
// launcher/import includes this file.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/import/import_state.h"

namespace dlrun {

class LauncherOptionReader {
 public:
  /// command and state must outlive this object. from: the position of the first option.
  LauncherOptionReader(const ShellCommand& command, std::size_t from, ImportState& state)
      : command_(command), state_(state), at_(from) {}

  /// Read all options and set keys. Return a reason if an option is not known (the words after it
  /// could be its values) or lacks its value. read_srun_options() also returns a reason for short
  /// options that share a word with a variable, such as -n$N, and accepts an unknown option with
  /// its value in the same word, such as --NAME=VALUE.
  [[nodiscard]] ImportObstacle read_srun_options();
  [[nodiscard]] ImportObstacle read_mpirun_options();
  /// is_module: set to true if torchrun starts a Python module (-m). is_without_python: set to true
  /// if torchrun starts a program without Python (--no-python).
  [[nodiscard]] ImportObstacle read_torchrun_options(bool& is_module, bool& is_without_python);

  /// Return the position of the program after the options, and the words from there on.
  [[nodiscard]] std::size_t program_position() const { return at_; }
  [[nodiscard]] std::span<const ShellWord> program_words() const {
    return std::span(command_.words).subspan(at_);
  }

 private:
  /// An option of the launcher.
  struct Option {
    std::string name;  ///< "--nodes"
    /// The value; nullopt if there is none, or if only the job knows it (is_value_unknown).
    std::optional<std::string> value;
    bool is_value_unknown = false;
  };

  [[nodiscard]] bool is_at_option() const;
  /// Reads NAME=VALUE or the bare NAME, and moves to the next word.
  [[nodiscard]] Option take_option_word();
  /// Returns the value of an option; nullopt if only the job knows it.
  [[nodiscard]] std::optional<std::string> value_of(ShellWord word, std::string_view name) const;
  /// Reads the next word as the option's value. Returns false if there is no word.
  [[nodiscard]] bool take_value(Option& option);
  /// Reads the next word of srun's options, and its value, and sets keys. Returns a reason as
  /// read_srun_options() does.
  [[nodiscard]] ImportObstacle take_srun_option();
  /// Sets the key of an option of srun, or an entry of launch.srun if it has no key. Adds a remark
  /// instead if dlrun sets the option itself, or if only the job knows the value.
  void set_srun_option(const Option& option);
  void set_pyxis_runtime();
  /// Sets a key of `container` from an option of pyxis.
  void set_container_key(const KeyRow& row, const Option& option);
  /// Sets a key of the job from an option of its step. Does nothing if the job has this value
  /// already. Adds a remark instead if the job has another value of the key, or if the key is not
  /// about ranks and resources.
  void set_job_key(const KeyRow& row, const Option& option);
  /// Sets `key`, a number of nodes or ranks, as set_job_key() does. Adds a remark instead if only
  /// the job knows the number.
  void set_count(std::string_view key, const Option& option);
  /// Adds a remark on an option that the spec does not have.
  void remark_on_option(const Option& option, std::string_view reason);

  const ShellCommand& command_;
  ImportState& state_;
  std::size_t at_;
};

}  // namespace dlrun
