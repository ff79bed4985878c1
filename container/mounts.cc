#include "container/mounts.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/text.h"

namespace dlrun {

std::string escaped_for_fstab(std::string_view path) {
  std::string text;
  for (const char c : path) text += c == ' ' ? std::string("\\040") : std::string(1, c);
  return text;
}

std::span<const std::string_view> allowed_mount_flags() {
  static constexpr std::array<std::string_view, 24> kFlags{
      "ro",      "rw",         "nosuid",      "suid",          "nodev",        "dev",
      "noexec",  "exec",       "noatime",     "atime",         "bind",         "rbind",
      "nofail",  "private",    "rprivate",    "slave",         "rslave",       "shared",
      "rshared", "unbindable", "runbindable", "x-create=auto", "x-create=dir", "x-create=file"};
  return kFlags;
}

std::vector<ContainerProblem> mount_problems(const ContainerSpec& spec,
                                             const ContainerBackend& backend) {
  std::vector<ContainerProblem> found;
  for (std::size_t i = 0; i < spec.mounts.size(); ++i) {
    for (const std::string* path : {&spec.mounts[i].source, &spec.mounts[i].target}) {
      const auto at = path->find_first_of(backend.unmountable_characters());
      if (at == std::string::npos) continue;
      found.push_back({fmt::format("container.mounts[{}]", i),
                       fmt::format("container.mounts: '{}' holds '{}', which {} cannot express",
                                   printable(*path), path->substr(at, 1), backend.name()),
                       false});
    }
  }
  return found;
}

std::vector<Mount> all_mounts(const StepContainer& container) {
  std::vector<Mount> mounts = container.spec.mounts;
  for (const Mount& own : container.dlrun_mounts) {
    const bool is_taken =
        std::any_of(container.spec.mounts.begin(), container.spec.mounts.end(),
                    [&](const Mount& of_user) { return of_user.target == own.target; });
    if (!is_taken) mounts.push_back(own);
  }
  return mounts;
}

}  // namespace dlrun
