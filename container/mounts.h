#pragma once
// Functions that several backends share: mounts and script templates.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "container/container.h"

namespace dlrun {

/// Replaces each blank of a path by \040, because blanks separate the fields of an fstab. enroot
/// reads mounts as lines of an fstab. The path has no other white space.
[[nodiscard]] std::string fstab_path(std::string_view path);

/// Returns the allowed flags of a mount. enroot silently ignores any other flag.
[[nodiscard]] std::span<const std::string_view> mount_flags();

/// Returns one error for each mount whose path the backend cannot express.
[[nodiscard]] std::vector<ContainerProblem> mount_problems(const ContainerSpec& spec,
                                                           const ContainerBackend& backend);

/// Returns the user's mounts, then dlrun's own mounts except those with the same target.
[[nodiscard]] std::vector<Mount> all_mounts(const ContainerStep& step);

/// Returns the text with each placeholder replaced by its value. values: pairs such as
/// {"@NAME@", "x"}.
[[nodiscard]] std::string filled(
    std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace dlrun
