#pragma once
// The #SBATCH lines of a script as sbatch itself reads them.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun {

/// The words of each #SBATCH line before the script's first command: quotes join, '\' escapes, '#'
/// ends the line.
[[nodiscard]] std::vector<std::vector<std::string>> sbatch_lines(std::string_view script);

/// The words of one line's rest, behind "#SBATCH".
[[nodiscard]] std::vector<std::string> sbatch_words_of(std::string_view rest);

/// The value of a #SBATCH option, the last one where it is given several times, before the script's
/// first command, as sbatch reads it, abbreviated ("--outp") too. Both names in their full form:
/// "--output", "-o"; no short name is "".
[[nodiscard]] std::optional<std::string> sbatch_value(std::string_view script,
                                                      std::string_view long_name,
                                                      std::string_view short_name);

struct SbatchOption {
  std::string value;
  std::size_t line = 0;  ///< of the script, from 1
};
/// The same, with the line that it stands in.
[[nodiscard]] std::optional<SbatchOption> sbatch_option(std::string_view script,
                                                        std::string_view long_name,
                                                        std::string_view short_name);

/// The first line with an option that takes no value, alone, abbreviated or among other letters
/// ("-HW").
[[nodiscard]] std::optional<std::size_t> sbatch_flag(std::string_view script,
                                                     std::string_view long_name,
                                                     std::string_view short_name);

/// The value of an option ("-N") in the script's #PBS lines, which sbatch reads, too, unless
/// --ignore-pbs forbids it.
[[nodiscard]] std::optional<SbatchOption> pbs_option(std::string_view script,
                                                     std::string_view name);

/// The first line that parts a heterogeneous job's components: "#SBATCH hetjob", or packjob, as it
/// was once called.
[[nodiscard]] std::optional<std::size_t> het_line(std::string_view script);

}  // namespace dlrun
