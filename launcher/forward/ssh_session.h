#pragma once
// ssh connections into a running job: one step of the job for each, with the node's own sshd.

#include <filesystem>
#include <functional>
#include <string_view>

#include "common/env.h"
#include "common/result.h"
#include "launcher/forward/forwarding.h"
#include "launcher/forward/ssh_keys.h"
#include "launcher/plan/render.h"

namespace dlrun {

/// Asks the node for its sshd, in a step of the job. Fails with kNotFound if it has none, and with
/// kRefused if Slurm starts no step.
[[nodiscard]] Result<> check_sshd(const Env& env, const AttachPoint& point,
                                  const std::filesystem::path& agent);

/// Connects standard input and output to an sshd on the node, in the environment of the plan, until
/// either end closes. runs_dir: the folder of runs, for the script. folder: where the step starts.
/// said: gets what Slurm says meanwhile.
[[nodiscard]] Result<Forwarded> connect_ssh(const Env& env, const LaunchPlan& plan,
                                            const AttachPoint& point, const SshKeys& keys,
                                            const std::filesystem::path& agent,
                                            const std::filesystem::path& runs_dir,
                                            const std::filesystem::path& folder,
                                            const std::function<void(std::string_view)>& said);

}  // namespace dlrun
