#pragma once
// Writing to standard output and standard error, whatever they are.

#include <cstdio>
#include <string_view>

namespace dlrun {

/// Writes all of it, or as much as the stream takes; false where that was not all. SIGPIPE does not
/// come of it.
bool write_to(std::FILE* stream, std::string_view bytes);
/// std::fflush() without SIGPIPE. False where the stream has failed, now or before.
bool flush(std::FILE* stream);

}  // namespace dlrun
