#include "launcher/executors/rest_token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "common/files.h"
#include "common/text.h"
#include "launcher/executors/rest_reply.h"

namespace dlrun {

Result<std::string> read_token(const std::filesystem::path& path) {
  constexpr std::size_t kLongest = 16384;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) {
    const int error = errno;
    if (error != ENOENT)
      return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(error));
    return fail(Errc::kNotFound,
                "{}: {}; run `umask 077`, and write the output of `scontrol token` into this file",
                printable(path.string()), errno_text(error));
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  if (!S_ISREG(info.st_mode))
    return fail(Errc::kInvalid, "{}: is not a file", printable(path.string()));
  if ((info.st_mode & 077U) != 0)
    return fail(Errc::kInvalid,
                "{}: others may read or write it (mode {:04o}): whoever has the token can submit "
                "jobs as you. Run `chmod 600` on the file, and make a new token",
                printable(path.string()), info.st_mode & 07777U);
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return fail(Errc::kInvalid, "{}: belongs to another user; expected a file of yours or of root",
                printable(path.string()));
  std::array<char, kLongest + 1> buffer;
  std::string text;
  for (ssize_t count = 1; count != 0 && text.size() <= kLongest;) {
    count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  std::string_view token = trim(text);
  if (token.starts_with("SLURM_JWT=")) token.remove_prefix(10);
  // Any other character could end or split the HTTP header that carries the token.
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/";
  if (token.empty() || token.size() > kLongest ||
      token.find_first_not_of(kAllowed) != std::string_view::npos)
    return fail(Errc::kInvalid,
                "{}: holds no token; expected the one line that `scontrol token` prints",
                printable(path.string()));
  if (const auto expiry = token_expiry(token); expiry && *expiry <= ::time(nullptr))
    return fail(Errc::kInvalid, "{}: the token expired {} s ago; `scontrol token` makes a new one",
                printable(path.string()), ::time(nullptr) - *expiry);
  return std::string(token);
}

}  // namespace dlrun
