#include "launcher/runs/existing_folders.h"

#include <dirent.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace dlrun {
namespace {

std::optional<std::unordered_set<std::string>> entries_of(const std::string& parent) {
  struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(parent.c_str()));
  if (folder == nullptr) return std::nullopt;
  std::unordered_set<std::string> names;
  for (;;) {
    errno = 0;
    const struct dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    names.emplace(entry->d_name);
  }
  if (errno != 0) return std::nullopt;
  return names;
}

}  // namespace

bool ExistingFolders::has(const std::filesystem::path& folder) {
  const std::string& path = folder.native();
  const auto slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    std::string parent = path.substr(0, slash);
    auto found = names_.find(parent);
    if (found == names_.end()) {
      Names names = entries_of(parent);
      found = names_.emplace(std::move(parent), std::move(names)).first;
    }
    if (found->second) return found->second->contains(path.substr(slash + 1));
  }
  // A folder that cannot be listed may still allow access to the entries that it has.
  return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace dlrun
