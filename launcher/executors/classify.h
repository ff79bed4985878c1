#pragma once
// Slurm's commands end with 1 whatever went wrong; what it was is only in their words.

#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// Slurm's messages without the program's name and "error:", joined into one line, printable.
[[nodiscard]] std::string slurm_words(std::string_view err);

/// True when the words say that nobody answered (controller, database, munge), not that somebody
/// said no.
[[nodiscard]] bool says_unreachable(std::string_view err);

/// True when the words say that the controller takes no more requests for now: they may be made
/// again.
[[nodiscard]] bool says_busy(std::string_view err);

/// True when the words say that the job id means nothing to the controller: it was purged, or never
/// was.
[[nodiscard]] bool says_unknown_job(std::string_view err);

/// The Error for a Slurm command that failed: kUnavailable or kRefused, with its own words.
[[nodiscard]] Error slurm_error(std::string_view program, std::string_view err, int exit_code);

}  // namespace dlrun
