#include "runtime/agent/leftovers.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <system_error>

#include "common/files.h"
#include "common/untrusted_file.h"

namespace dlrun::agent {
namespace {

/// Returns true if the path is a regular file of this user that nobody has changed since `before`.
/// Looks at the change time of the inode, not at the modification time: sbcast sets the
/// modification time of its finished copy to that of the source.
bool is_old_own_file(const std::filesystem::path& path, std::time_t before) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
         info.st_ctim.tv_sec <= before;
}

}  // namespace

void remove_leftovers(const std::filesystem::path& folder,
                      const std::function<bool(std::string_view)>& is_temporary,
                      std::chrono::seconds age) {
  const auto before = std::time(nullptr) - static_cast<std::time_t>(age.count());
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  while (!error && entries != std::filesystem::directory_iterator()) {
    const auto& path = entries->path();
    if (is_temporary(path.filename().string()) && is_old_own_file(path, before)) {
      const auto file = open_untrusted(path, Links::kRefuse);
      if (file && ::flock(file->get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
    }
    entries.increment(error);
  }
}

bool are_hex_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace dlrun::agent
