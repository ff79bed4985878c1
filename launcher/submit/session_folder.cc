// A session locks its folder with flock(), and its child processes inherit the lock. If no process
// holds the lock of a folder, its session was killed, and the next session removes the folder.

#include "launcher/submit/session_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/quoting.h"
#include "common/text.h"
#include "launcher/runs/tools.h"

namespace dlrun {
namespace {

/// Opens and locks the folder. The returned descriptor is not open if another process holds the
/// lock or has removed the folder, or if the file system has no locks. Child processes inherit the
/// descriptor, and with it the lock.
UniqueFd open_and_lock(const std::filesystem::path& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (!fd.is_open() || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return {};
  struct stat ours {
  }, there{};
  const bool is_there = ::fstat(fd.get(), &ours) == 0 && ::stat(folder.c_str(), &there) == 0;
  return is_there && ours.st_ino == there.st_ino ? std::move(fd) : UniqueFd();
}

/// Removes the folders of killed sessions: no process holds their locks. Removes nothing on a file
/// system without locks.
void remove_abandoned(const std::filesystem::path& sessions) {
  std::error_code error;
  for (std::filesystem::directory_iterator folder(sessions, error);
       !error && folder != std::filesystem::directory_iterator(); folder.increment(error)) {
    const UniqueFd fd = open_and_lock(folder->path());
    std::error_code ignored;
    if (fd.is_open()) std::filesystem::remove_all(folder->path(), ignored);
  }
}

std::filesystem::path mark_of(const SessionFolder& folder) {
  return folder.path() / "begun";
}

}  // namespace

Result<SessionFolder> SessionFolder::make(const std::filesystem::path& runs_dir) {
  const auto sessions = runs_dir / fmt::format(".interactive-{}", ::geteuid());
  DLRUN_TRY(make_private_directories(sessions));
  DLRUN_TRY(check_own_folder(sessions));
  remove_abandoned(sessions);
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const auto path = sessions / random_hex(8);
    DLRUN_TRY(make_private_directories(path));
    UniqueFd fd = open_and_lock(path);
    std::error_code error;
    // Another session may remove the new folder before it is locked; then the loop tries again. On
    // a file system without locks no session removes folders.
    if (fd.is_open() || (errno != EWOULDBLOCK && std::filesystem::exists(path, error)))
      return SessionFolder(path, std::move(fd));
  }
  return fail(Errc::kIo, "{}: cannot make and lock a folder in it; dlrun tried {} times",
              printable(sessions.string()), kTries);
}

std::string with_begun_mark(const std::string& script, const SessionFolder& folder) {
  std::string text = script;
  const auto at = text.find('\n');
  text.insert(at == std::string::npos ? 0 : at + 1,
              fmt::format(": > {}\n", shell_quote(mark_of(folder).string())));
  return text;
}

bool has_begun(const SessionFolder& folder) {
  std::error_code ignored;
  return std::filesystem::exists(mark_of(folder), ignored);
}

}  // namespace dlrun
