#pragma once
// Builds the environment and the argv of a rank's program. Pure functions.

#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "runtime/agent/rank.h"

namespace dlrun::agent {

/// Returns the program's environment: agent_env without the variables for lead and the agents, plus
/// DLRUN_* for the program and the variables of the preset. Fails with kInvalid if a variable of
/// the preset exceeds the limit of Linux (128 KiB).
[[nodiscard]] Result<Env> program_env(const Env& agent_env, const RankOptions& options,
                                      const TemplateValues& fields);

/// Returns the program's argv: the arguments of the preset, then those of the program. In a
/// component, `{port}` in an argument of the program becomes this rank's port.
[[nodiscard]] std::vector<std::string> program_argv(const RankOptions& options,
                                                    const TemplateValues& fields);

/// Returns true if a template of the options needs this rank's port. In a component also returns
/// true if an argument of the program contains `{port}`.
[[nodiscard]] bool needs_port(const RankOptions& options, bool is_component = false);
/// Returns true if a template of the options needs the addresses of all ranks.
[[nodiscard]] bool needs_addresses(const RankOptions& options);

/// Fails with kUsage if a template uses a role and the roles do not fit a world of this size.
[[nodiscard]] Result<> check_roles(const RankOptions& options, int world_size);

}  // namespace dlrun::agent
