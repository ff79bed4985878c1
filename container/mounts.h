#pragma once
// Functions about mounts that several backends share.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "container/container.h"

namespace dlrun {

/// Replaces each blank of a path by \040. enroot reads mounts as lines of an fstab, whose fields
/// are separated by blanks. The path must not contain other white space.
[[nodiscard]] std::string escaped_for_fstab(std::string_view path);

/// Returns the allowed flags of a mount. enroot silently ignores any other flag.
[[nodiscard]] std::span<const std::string_view> allowed_mount_flags();

/// Returns one error for each source or target of a mount that the backend cannot express.
[[nodiscard]] std::vector<ContainerProblem> mount_problems(const ContainerSpec& spec,
                                                           const ContainerBackend& backend);

/// Returns the user's mounts, then dlrun's own mounts. Leaves out a mount of dlrun if a mount of
/// the user has the same target.
[[nodiscard]] std::vector<Mount> all_mounts(const StepContainer& container);

}  // namespace dlrun
