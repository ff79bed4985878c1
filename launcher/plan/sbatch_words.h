#pragma once
// The #SBATCH lines of a script as sbatch itself reads them.

#include <string>
#include <string_view>
#include <vector>

namespace dlrun {

/// The words of each #SBATCH line before the script's first command: quotes join, '\' escapes, '#' ends the line.
[[nodiscard]] std::vector<std::vector<std::string>> sbatch_lines(std::string_view script);

/// The words of one line's rest, behind "#SBATCH".
[[nodiscard]] std::vector<std::string> sbatch_words_of(std::string_view rest);

}  // namespace dlrun
