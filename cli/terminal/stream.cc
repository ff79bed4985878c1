#include "cli/terminal/stream.h"

#include <stdio_ext.h>

#include "common/blocked_sigpipe.h"

namespace dlrun {

bool write_to(std::FILE* stream, std::string_view bytes) {
  if (bytes.empty()) return true;
  // Bytes that only enter the buffer cannot raise SIGPIPE.
  if (::__flbf(stream) == 0 && bytes.size() + ::__fpending(stream) < ::__fbufsize(stream))
    return std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
  const BlockedSigpipe guard;
  return std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
}

bool flush(std::FILE* stream) {
  if (::__fpending(stream) == 0) return std::ferror(stream) == 0;
  const BlockedSigpipe guard;
  return std::fflush(stream) == 0 && std::ferror(stream) == 0;
}

}  // namespace dlrun
