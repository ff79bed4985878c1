#include "launcher/remote/mirror_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "common/json_read.h"
#include "common/text.h"
#include "launcher/runs/tools.h"

namespace dlrun {
namespace {

/// Takes the lock of an open file. Returns false if another process still holds it after
/// `patience`.
bool lock_within(int fd, std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return true;  // a file system without locks
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

Result<MirrorLock> MirrorLock::take(const std::filesystem::path& root, const std::string& mirror,
                                    std::chrono::seconds patience) {
  const std::filesystem::path name(mirror);
  if (name.empty() || name.filename() != name || mirror.starts_with('.'))
    return fail(Errc::kInvalid, "'{}' is no name of a mirror", printable(mirror));
  DLRUN_TRY(make_private_directories(root / name));
  DLRUN_TRY(check_own_folder(root / name, "remove it, or set another root for this host"));
  const auto path = root / ("." + mirror + ".lock");
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (!fd.is_open())
    return fail(Errc::kIo, "cannot open {}: {}", printable(path.string()), errno_text(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_uid != ::geteuid() || (info.st_mode & 022U) != 0)
    return fail(Errc::kInvalid, "{}: belongs to another user, or others can write to it; remove it",
                printable(path.string()));
  if (lock_within(fd.get(), patience)) return MirrorLock(std::move(fd));
  return fail(
      Errc::kUnavailable,
      "{}: another command of dlrun, or its sbatch, uses this copy of the code, so the copy "
      "must not change now; this command did not start. Try again when the other has ended",
      printable((root / name).string()));
}

std::string mirror_answer(const std::filesystem::path& mirror,
                          const std::vector<std::string>& paths, bool is_current) {
  nlohmann::ordered_json answer;
  answer["mirror"] = mirror.string();
  answer["missing"] = nlohmann::ordered_json::array();
  std::error_code error;
  for (const std::string& path : paths) {
    if (!std::filesystem::exists(path, error)) answer["missing"].push_back(path);
  }
  answer["current"] = is_current;
  return json_read::dump(answer) + "\n";
}

Result<MirrorAnswer> parse_mirror_answer(const std::string& line) {
  const auto json = json_read::object_of(line);
  if (!json)
    return fail(Errc::kInvalid, "the host's answer about its copy of the code is no JSON object");
  MirrorAnswer answer;
  answer.path = json_read::text(*json, "mirror");
  if (!answer.path.starts_with('/'))
    return fail(Errc::kInvalid, "the host's answer has no absolute path of its copy of the code");
  answer.is_current = json_read::boolean(*json, "current");
  if (const auto missing = json->find("missing"); missing != json->end() && missing->is_array()) {
    for (const auto& path : *missing) {
      if (path.is_string()) answer.missing.push_back(path.get<std::string>());
    }
  }
  return answer;
}

}  // namespace dlrun
