#pragma once
// What a rank's program is given: its variables and its words. Pure.

#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "runtime/agent/rank.h"

namespace dlrun::agent {

/// own without what is lead's and the agents' business, with DLRUN_* and the preset's variables.
/// Fails with kInvalid where a variable is longer than Linux hands to a program.
[[nodiscard]] Result<Env> program_env(const Env& own, const RankOptions& options,
                                      const TemplateFields& fields);

/// The preset's words, then the program's own.
[[nodiscard]] std::vector<std::string> program_argv(const RankOptions& options,
                                                    const TemplateFields& fields);

/// What templates of the options ask for.
[[nodiscard]] bool needs_port(const RankOptions& options);
[[nodiscard]] bool needs_table(const RankOptions& options);

/// Fails with kUsage where a template names a role and the roles do not fit a world of this size.
[[nodiscard]] Result<> check_roles(const RankOptions& options, int world_size);

}  // namespace dlrun::agent
