#include "runtime/agent/secrets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string_view>

#include "common/files.h"
#include "common/log.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kLargestFileBytes = 8U << 20U;

/// Reads the file; nullopt if it does not exist.
[[nodiscard]] Result<std::optional<std::string>> read_private(const std::filesystem::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open() && (errno == ENOENT || errno == ENOTDIR)) return std::optional<std::string>();
  if (!file.is_open()) return fail(Errc::kInvalid, "{}: {}", path.string(), errno_text(errno));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));
  if (!S_ISREG(info.st_mode)) return fail(Errc::kInvalid, "{}: not a regular file", path.string());
  if (info.st_uid != ::geteuid())
    return fail(Errc::kInvalid, "{}: belongs to another user", path.string());
  if ((info.st_mode & 077U) != 0)
    return fail(Errc::kInvalid, "{}: is open to others (mode {:o}); run chmod 600 on the file",
                path.string(), info.st_mode & 0777U);
  if (info.st_size > static_cast<off_t>(kLargestFileBytes))
    return fail(Errc::kInvalid, "{}: larger than {} bytes", path.string(), kLargestFileBytes);
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return std::optional<std::string>(std::move(text));
}

}  // namespace

Result<> add_secrets(Env& env, const std::vector<std::string>& names,
                     const std::filesystem::path& run) {
  if (names.empty()) return {};
  std::optional<std::string> text;
  if (!run.empty()) {
    auto read = read_private(run / "secrets");
    if (!read) return tl::unexpected<Error>(std::move(read.error()));
    text = std::move(*read);
  }
  const auto entries = split(text ? std::string_view(*text) : std::string_view(), '\0');
  for (const std::string& name : names) {
    bool is_set = env.has(name);
    for (const std::string_view entry : entries) {
      if (!entry.starts_with(name) || entry.size() <= name.size() || entry[name.size()] != '=')
        continue;
      env.set(name, entry.substr(name.size() + 1));
      is_set = true;
    }
    if (!is_set) {
      return fail(
          Errc::kInvalid,
          "secret {} is neither in the run's secrets file nor in the environment; submit the "
          "run with `dlrun submit`, which writes this file, or set {} in the environment",
          name, name);
    }
    hide_in_log(*env.get(name));
  }
  return {};
}

void remove_secrets(const std::filesystem::path& run) {
  std::error_code ignored;
  std::filesystem::remove(run / "secrets", ignored);
}

}  // namespace dlrun::agent
