#pragma once
// Describes what is left of an account's hours. Pure functions.

#include <optional>
#include <string>
#include <string_view>

#include "launcher/executors/account_use.h"
#include "launcher/plan/plan.h"

namespace dlrun {

/// Returns the unit of a resource's hours: "GPU-hours" for gres/gpu, "core-hours" for cpu,
/// "MiB-hours of memory" for mem, which Slurm counts in MiB, and so on.
[[nodiscard]] std::string hours_unit(std::string_view resource);

/// Returns "proj1: 1200 of 5000 GPU-hours are left". Shows the scarcest limit first, the user if a
/// limit is for one user only, and how many hours are reserved for running jobs. Returns "proj1,
/// without a limit on its hours" if the account has none.
[[nodiscard]] std::string account_text(const AccountUse& use);

/// Returns a warning if the job may use more GPU-hours or core-hours than a limit of the account or
/// of its user leaves: Slurm would accept the job and keep it pending. Returns "" otherwise.
[[nodiscard]] std::string too_few_hours_text(const AccountUse& use,
                                             const std::optional<double>& gpu_hours,
                                             const std::optional<double>& core_hours);

}  // namespace dlrun
