#pragma once
// Languages that look alike and are not: the shell's words, the words of a #SBATCH line, sbatch's
// output patterns.

#include <span>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// One word of a POSIX shell that expands to exactly text: bare where that is safe, else
/// single-quoted. Newlines and any other byte arrive unchanged; a NUL cannot be expressed and must
/// not be passed. A text with a carriage return takes bash's $'' form, since sbatch refuses a
/// script that holds the line ends of DOS.
[[nodiscard]] std::string shell_quote(std::string_view text);

/// The words, quoted and joined by spaces.
[[nodiscard]] std::string shell_quote_all(std::span<const std::string> words);

/// A value as sbatch's own tokenizer of #SBATCH lines reads it back byte for byte: bare where that
/// is safe, else in double quotes with \ and " escaped. sbatch takes \ as an escape even inside
/// single quotes, and bash sees the line as a comment only up to the newline: shell quoting here
/// has let commands run. Control characters are refused.
[[nodiscard]] Result<std::string> sbatch_quote(std::string_view value);

/// A text as the part of sbatch's output pattern that means it: each '%', which would start a
/// field, twice. A '\' cannot be expressed there and must not be passed.
[[nodiscard]] std::string escape_pattern(std::string_view text);

}  // namespace dlrun
