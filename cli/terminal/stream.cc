#include "cli/terminal/stream.h"

#include "common/blocked_sigpipe.h"

namespace dlrun {

bool write_to(std::FILE* stream, std::string_view bytes) {
  const BlockedSigpipe guard;
  return std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
}

bool flush(std::FILE* stream) {
  const BlockedSigpipe guard;
  return std::fflush(stream) == 0 && std::ferror(stream) == 0;
}

}  // namespace dlrun
