#include "common/untrusted_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/file_and_owner.h"
#include "common/log.h"
#include "common/text.h"

namespace dlrun {
namespace fs = std::filesystem;

Result<UniqueFd> open_untrusted(const fs::path& path, Links links) {
  // Opening a device can have side effects, such as rewinding a tape. O_PATH only finds the file.
  const int no_follow = links == Links::kRefuse ? O_NOFOLLOW : 0;
  struct stat status {};
  const auto failed = [&] {
    const int error = errno;
    return fail(error == ENOENT || error == ENOTDIR ? Errc::kNotFound : Errc::kIo, "{}: {}",
                printable(path.string()), errno_text(error));
  };
  const UniqueFd found(open(path.c_str(), O_PATH | O_CLOEXEC | no_follow));
  if (!found.is_open() || fstat(found.get(), &status) != 0) return failed();
  if (S_ISLNK(status.st_mode))
    return fail(Errc::kInvalid,
                "{}: is a symbolic link; dlrun creates no links here, and does not follow it",
                printable(path.string()));
  if (!S_ISREG(status.st_mode))
    return fail(Errc::kInvalid, "{}: is not a regular file", printable(path.string()));
  // Opens the file that was found, even if another file is at the path now. Without /proc the path
  // is resolved again. If a FIFO is at the path now, O_NONBLOCK prevents a wait.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  UniqueFd file(open(fmt::format("/proc/self/fd/{}", found.get()).c_str(), kFlags));
  if (!file.is_open() && access("/proc/self/fd", X_OK) != 0)
    file.reset(open(path.c_str(), kFlags | no_follow));
  if (!file.is_open()) return failed();
  if (fstat(file.get(), &status) != 0) return failed();
  if (!S_ISREG(status.st_mode))
    return fail(Errc::kInvalid, "{}: is not a regular file", printable(path.string()));
  log_debug("a file is read", {{"file", path}, {"bytes", status.st_size}});
  return file;
}

Result<std::string> read_untrusted(const fs::path& path, std::size_t limit_bytes, Links links) {
  DLRUN_TRY_ASSIGN(auto read, read_file_and_owner(path, limit_bytes, links));
  return std::move(read.text);
}

Result<TextAndOwner> read_file_and_owner(const fs::path& path, std::size_t limit_bytes,
                                         Links links) {
  DLRUN_TRY_ASSIGN(const auto file, open_untrusted(path, links));
  struct stat status {};
  if (fstat(file.get(), &status) != 0)
    return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  const auto too_large = [&] {
    return fail(Errc::kInvalid, "{}: larger than the limit of {} bytes", printable(path.string()),
                limit_bytes);
  };
  // Files in /proc report size 0 but have content; a sparse file reports a large size.
  if (status.st_size > 0 && static_cast<std::size_t>(status.st_size) > limit_bytes)
    return too_large();
  std::string content;
  content.resize(static_cast<std::size_t>(status.st_size) + 1);
  std::size_t size = 0;
  for (;;) {
    const ssize_t got = read(file.get(), content.data() + size, content.size() - size);
    if (got < 0) {
      if (errno == EINTR) continue;
      return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
    }
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
    if (size > limit_bytes) return too_large();
    // The file is larger than its reported size.
    if (size == content.size()) content.resize(content.size() * 2);
  }
  content.resize(size);
  return TextAndOwner{std::move(content), status.st_uid};
}

}  // namespace dlrun
