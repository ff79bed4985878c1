#pragma once
// Whether what was printed has gone out: a full disk and a closed descriptor are told, and what they swallowed.

#include <functional>
#include <string>

#include "common/result.h"

namespace dlrun {

/// Flushes; false as soon as standard output has failed once.
[[nodiscard]] bool is_all_printed();

/// Prints; where that fails, kIo with instead: what the user must not miss, such as the job that is queued.
[[nodiscard]] Result<> print_or_say(const std::function<void()>& print, const std::string& instead);

}  // namespace dlrun
