#pragma once
// Mounts and shell text, for the backends.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "container/container.h"

namespace dlrun {

/// A path in a line of an fstab, where white space would end it: enroot reads mounts as such lines.
[[nodiscard]] std::string fstab_path(std::string_view path);

/// The flags that a mount may have; enroot ignores any other one, and mounts as if it were not
/// there.
[[nodiscard]] std::span<const std::string_view> mount_flags();

/// One error for every mount whose path holds what the backend cannot express.
[[nodiscard]] std::vector<ContainerProblem> mount_problems(const ContainerSpec& spec,
                                                           const ContainerBackend& backend);

/// The user's mounts, then dlrun's own but for those whose target the user's have.
[[nodiscard]] std::vector<Mount> all_mounts(const ContainerStep& step);

/// text with every @NAME@ replaced by its value.
[[nodiscard]] std::string filled(
    std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace dlrun
