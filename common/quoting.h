#pragma once
// Quoting for three languages that look alike but differ: shell words, words of an #SBATCH line,
// and sbatch's patterns for output files.

#include <span>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// Returns one word that a POSIX shell expands to exactly this text: without quotes if this is
/// safe, otherwise in single quotes. The text must not contain NUL. Exception: a text with a
/// carriage return gets bash's $'' form, because sbatch rejects scripts with DOS line ends.
[[nodiscard]] std::string shell_quote(std::string_view text);

/// Quotes each word and joins them with spaces.
[[nodiscard]] std::string shell_quote_all(std::span<const std::string> words);

/// Quotes a value so that sbatch's tokenizer of #SBATCH lines reads exactly this value: without
/// quotes if this is safe, otherwise in double quotes with \ and " escaped. Shell quoting is
/// unsafe: sbatch treats \ as an escape even inside single quotes, and bash would run the text
/// after a newline as commands. Fails with kInvalid if the value has control characters.
[[nodiscard]] Result<std::string> sbatch_quote(std::string_view value);

/// Returns a pattern for sbatch's output files that expands to exactly this text: each '%', which
/// starts a field, is doubled. The text must not contain '\', which a pattern cannot express.
[[nodiscard]] std::string escaped_for_sbatch_pattern(std::string_view text);

}  // namespace dlrun
