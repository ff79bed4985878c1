#pragma once
// `dlrun-trainer preflight`: do collectives among this job's ranks work? One rank of it, started by
// every rank's agent before the user's program (health.preflight: nccl, gloo).

#include <chrono>
#include <span>
#include <string>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::trainer {

struct PreflightOptions {
  std::string backend = "nccl";
  std::chrono::seconds timeout{60};  ///< for all ranks to come, and for each collective
};

/// args without the program's name and `preflight`. Fails with kUsage.
[[nodiscard]] Result<PreflightOptions> parse_preflight_options(std::span<const std::string> args);

/// Takes the rank's device, meets the others, all-reduces four MiB and compares every element with
/// the closed form. Through the store it says `{"check":"arrived"}` once it has a device, and after
/// a failure
/// `{"check":"failed","words","is_own"}`; is_own: the failure is this rank's, not one of meeting
/// the others. Fails with that, and with kUsage where no DLRUN_STORE is.
[[nodiscard]] Result<> run_preflight(const PreflightOptions& options, const Env& env);

}  // namespace dlrun::trainer
