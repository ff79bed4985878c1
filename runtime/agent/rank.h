#pragma once
// `dlrun-agent rank`: around one task's program.

#include <string>
#include <vector>

#include "common/env.h"
#include "runtime/agent/node_check.h"
#include "runtime/agent/template.h"

namespace dlrun::agent {

struct RankOptions {
  std::vector<EnvTemplate> templates;
  std::vector<std::string> secrets;  ///< names; see secrets.h
  std::vector<Template> words;       ///< before the program's own
  Roles roles;
  int nproc_per_node = 1;
  NodeChecks checks;     ///< before the hello
  std::string tmpdir{};  ///< the TMPDIR that the spec asks for; empty: whatever there is
  bool is_trusted = false;
  std::vector<std::string> program;
};

/// Runs the program to its end; the process's exit code: the program's, 128 + signal where one
/// ended it. With a terminal on standard input the process becomes the program. Blocks signals.
/// Once per process.
[[nodiscard]] int run_rank(const RankOptions& options, const Env& env);

}  // namespace dlrun::agent
