#pragma once
// Writes to standard output and standard error, which may be closed, on a full disk, or a pipe
// without a reader.

#include <cstdio>
#include <string_view>

namespace dlrun {

/// Writes the bytes, or as many of them as the stream accepts. Returns false if the stream did not
/// accept all bytes. Raises no SIGPIPE.
bool write_to(std::FILE* stream, std::string_view bytes);
/// Calls std::fflush() without raising SIGPIPE. Returns false if the stream has failed, now
/// or earlier.
bool flush(std::FILE* stream);

}  // namespace dlrun
