#include "launcher/submit/built_environments.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/text.h"
#include "launcher/runs/tools.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFinishedMark = ".dlrun-finished";
constexpr std::size_t kHashDigits = 16, kRandomDigits = 8;

/// Returns true for the name of a version: HASH-RANDOM.
[[nodiscard]] bool is_version_name(std::string_view name) {
  if (name.size() != kHashDigits + 1 + kRandomDigits || name[kHashDigits] != '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-';
  });
}

[[nodiscard]] std::string short_hash(const std::string& hash) {
  return hash.substr(0, kHashDigits);
}

[[nodiscard]] bool is_finished(const fs::path& version) {
  std::error_code error;
  return fs::exists(version / kFinishedMark, error);
}

/// Returns the versions in a folder, finished or not.
[[nodiscard]] std::vector<fs::path> versions_in(const fs::path& folder) {
  std::vector<fs::path> versions;
  std::error_code error;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    if (is_version_name(at->path().filename().string())) versions.push_back(at->path());
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

}  // namespace

Result<BuildLock> BuildLock::take(const fs::path& file, const std::function<void()>& on_wait,
                                  const std::function<bool()>& is_interrupted) {
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.is_open())
    return fail(Errc::kIo, "cannot open {}: {}", printable(file.string()), errno_text(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_uid != ::geteuid() || (info.st_mode & 022U) != 0)
    return fail(Errc::kInvalid, "{}: belongs to another user, or others can write it; remove it",
                printable(file.string()));
  constexpr auto kSilentWait = std::chrono::milliseconds(500);  // before on_wait() is called
  const auto began = std::chrono::steady_clock::now();
  bool is_announced = false;
  for (;;) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return BuildLock(std::move(fd), true);
    if (errno != EWOULDBLOCK && errno != EINTR) return BuildLock(std::move(fd), false);
    if (is_interrupted()) return fail(Errc::kInterrupted, "interrupted; nothing was submitted");
    if (!is_announced && std::chrono::steady_clock::now() >= began + kSilentWait) {
      is_announced = true;
      on_wait();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<> make_environments_folder(const fs::path& folder, std::string_view remedy) {
  DLRUN_TRY(make_private_directories(folder));
  DLRUN_TRY(check_own_folder(folder, remedy));
  std::error_code error;
  if (fs::exists(folder / ".gitignore", error)) return {};
  return write_file_atomic(folder / ".gitignore", "*\n");
}

bool EnvironmentVersions::is_current(const std::string& hash) const {
  std::error_code error;
  const auto name = fs::read_symlink(folder_ / "current", error).string();
  return !error && is_version_name(name) && name.starts_with(short_hash(hash)) &&
         is_finished(folder_ / name);
}

std::optional<fs::path> EnvironmentVersions::find(const std::string& hash) const {
  for (const fs::path& version : versions_in(folder_)) {
    if (version.filename().string().starts_with(short_hash(hash)) && is_finished(version))
      return version;
  }
  return std::nullopt;
}

fs::path EnvironmentVersions::new_path(const std::string& hash) const {
  return folder_ / fmt::format("{}-{}", short_hash(hash), random_hex(kRandomDigits / 2));
}

Result<> EnvironmentVersions::finish_and_make_current(const fs::path& version) const {
  DLRUN_TRY(write_file_atomic(version / kFinishedMark, ""));
  return make_current(version);
}

Result<> EnvironmentVersions::make_current(const fs::path& version) const {
  const auto temporary = folder_ / ("current-" + random_hex(8));
  std::error_code error;
  fs::create_directory_symlink(version.filename(), temporary, error);
  if (!error) fs::rename(temporary, folder_ / "current", error);
  if (!error) return {};
  std::error_code ignored;
  fs::remove(temporary, ignored);
  return fail(Errc::kIo, "{}: cannot make a link: {}", printable(folder_.string()),
              error.message());
}

void EnvironmentVersions::remove_unfinished() const {
  std::error_code ignored;
  for (const fs::path& version : versions_in(folder_)) {
    if (!is_finished(version)) fs::remove_all(version, ignored);
  }
}

}  // namespace dlrun
