#pragma once
// Notes to the user about the differences between a run on this machine and the job of the same
// spec.

#include <filesystem>
#include <optional>
#include <string>

#include "common/env.h"
#include "launcher/plan/plan.h"
#include "launcher/spec/load.h"

namespace dlrun {

/// Returns a note if fewer ranks run here than the spec requests, such as for a spec with several
/// nodes. The note says with which settings all ranks run here.
[[nodiscard]] std::optional<std::string> fewer_ranks_note(const LoadedSpec& loaded,
                                                          const LaunchPlan& plan);

/// Returns true if this machine certainly has no GPU: no driver has a file in `devices` (/dev), and
/// no program of a driver is on env's PATH. A missing file alone proves nothing, because a driver
/// may make its files only when it is first used.
[[nodiscard]] bool is_without_gpu(const Env& env, const std::filesystem::path& devices);

/// Returns a note if the spec requests GPUs, and this machine certainly has none.
[[nodiscard]] std::optional<std::string> missing_gpu_note(const LoadedSpec& loaded, const Env& env,
                                                          const std::filesystem::path& devices);

}  // namespace dlrun
