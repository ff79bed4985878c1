#pragma once
// ssh connections into a running job. Each connection is one step of the job, which starts the
// node's own sshd.

#include <filesystem>
#include <functional>
#include <string_view>

#include "common/env.h"
#include "common/result.h"
#include "launcher/forward/forwarding.h"
#include "launcher/forward/ssh_keys.h"
#include "launcher/plan/render.h"

namespace dlrun {

/// Checks in a step of the job that the node has an sshd. Fails with kNotFound if the node has none
/// or this machine has no srun, and with kRefused if Slurm starts no step or the agent fails.
[[nodiscard]] Result<> check_sshd(const Env& env, const AttachTarget& target,
                                  const std::filesystem::path& agent);

/// Connects standard input and output to an sshd on the node, in the environment of the plan, until
/// either end closes. runs_dir: the folder of runs, which will hold the session's script.
/// start_folder: the step's working folder. on_message: called for each line on standard error of
/// the step.
[[nodiscard]] Result<ForwardingOutcome> connect_to_sshd(
    const Env& env, const LaunchPlan& plan, const AttachTarget& target, const SshKeys& keys,
    const std::filesystem::path& agent, const std::filesystem::path& runs_dir,
    const std::filesystem::path& start_folder,
    const std::function<void(std::string_view)>& on_message);

}  // namespace dlrun
