#pragma once
// Parses the #SBATCH lines of a script as sbatch does.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun {

/// Returns the arguments in each #SBATCH line before the script's first command. Quotes group text,
/// '\' escapes a character, '#' starts a comment.
[[nodiscard]] std::vector<std::vector<std::string>> sbatch_lines(std::string_view script);

/// The arguments in one #SBATCH line.
struct SbatchLine {
  std::size_t number = 0;  ///< the line's number in the script, from 1
  std::vector<std::string> words;
};
/// Returns what sbatch_lines() returns, with the numbers of the lines.
[[nodiscard]] std::vector<SbatchLine> numbered_sbatch_lines(std::string_view script);

/// Splits a text into words as sbatch splits the rest of a line after "#SBATCH".
[[nodiscard]] std::vector<std::string> words_of_line(std::string_view rest);

/// Returns the value of an option in the #SBATCH lines before the script's first command; the last
/// value if the script sets the option several times; nullopt if the script does not set it.
/// Accepts abbreviations ("--outp"), as sbatch does. long_name: "--output". short_name: "-o", or ""
/// if the option has none.
[[nodiscard]] std::optional<std::string> sbatch_value(std::string_view script,
                                                      std::string_view long_name,
                                                      std::string_view short_name);

/// The value of an option in a script, and the line that sets it.
struct ScriptOption {
  std::string value;
  std::size_t line = 0;  ///< the line's number in the script, from 1
};
/// Returns the option as sbatch_value() does, with its line.
[[nodiscard]] std::optional<ScriptOption> sbatch_option(std::string_view script,
                                                        std::string_view long_name,
                                                        std::string_view short_name);

/// Returns the number of the first #SBATCH line with this option, which takes no value. The option
/// may be abbreviated, or be a letter among others ("-HW"). Returns nullopt if there is no such
/// line.
[[nodiscard]] std::optional<std::size_t> line_of_flag(std::string_view script,
                                                      std::string_view long_name,
                                                      std::string_view short_name);

/// Returns the last value of an option ("-N") in the script's #PBS lines, with its line. Returns
/// nullopt if the lines do not set the option, or if the script has --ignore-pbs, with which sbatch
/// ignores these lines.
[[nodiscard]] std::optional<ScriptOption> pbs_option(std::string_view script,
                                                     std::string_view name);

/// Returns the number of the first line that separates the parts of a heterogeneous job: "#SBATCH
/// hetjob", or the former name packjob. Returns nullopt for other jobs.
[[nodiscard]] std::optional<std::size_t> line_of_part_separator(std::string_view script);

/// Returns a script for each part of a heterogeneous job, in the order of the parts. Each script
/// has the #SBATCH lines of its part, and a command that does nothing. Returns one script for other
/// jobs.
[[nodiscard]] std::vector<std::string> no_op_scripts_of_parts(std::string_view script);

}  // namespace dlrun
