#include "launcher/remote/code_state.h"

#include <sys/stat.h>

#include <set>
#include <system_error>

#include "common/sha256.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestMirrorList = 64U << 20U;  ///< bytes

/// Returns the file on the host that lists the files of the mirror.
std::filesystem::path list_file(const std::filesystem::path& root, const std::string& mirror) {
  return root / ("." + mirror + ".files");
}

/// Returns the state of one file or link as text.
std::string state_of_file(const std::filesystem::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return "none";
  if (S_ISLNK(info.st_mode)) {
    std::error_code error;
    return "link " + std::filesystem::read_symlink(path, error).string();
  }
  if (!S_ISREG(info.st_mode)) return "other";
  return fmt::format("{:o} {} {}", info.st_mode & 07777U, info.st_size, info.st_mtim.tv_sec);
}

std::string state_of_folder(const std::filesystem::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return "none";
  if (!S_ISDIR(info.st_mode)) return "other";
  // A folder inherits its set-group-id bit, so the bit may differ on the host.
  return fmt::format("{:o}", info.st_mode & 0777U);
}

}  // namespace

std::string state_of_files(const std::filesystem::path& top,
                           const std::vector<std::string>& names) {
  std::string text;
  std::set<std::string, std::less<>> folders;
  for (const std::string& name : names) {
    text += name + '\0' + state_of_file(top / name) + '\0';
    for (auto slash = name.rfind('/'); slash != std::string::npos && slash > 0;
         slash = name.rfind('/', slash - 1)) {
      if (!folders.insert(name.substr(0, slash)).second)
        break;  // the folders above are there already
    }
  }
  for (const std::string& folder : folders)
    text += folder + '\0' + state_of_folder(top / folder) + '\0';
  return sha256_of_text(text);
}

bool is_mirror_current(const std::filesystem::path& root, const std::string& mirror,
                       std::string_view state) {
  if (state.empty()) return false;
  const auto list = read_untrusted(list_file(root, mirror), kLargestMirrorList, Links::kRefuse);
  if (!list) return false;
  std::vector<std::string> names;
  for (const std::string_view name : split(*list, '\0')) {
    if (!name.empty()) names.emplace_back(name);
  }
  return state_of_files(root / mirror, names) == state;
}

Result<> write_file_list(const std::filesystem::path& root, const std::string& mirror,
                         std::string_view list) {
  return write_file_atomic(list_file(root, mirror), list);
}

}  // namespace dlrun
