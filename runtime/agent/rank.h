#pragma once
// `dlrun-agent rank`: the agent that runs the program of one task.

#include <string>
#include <vector>

#include "common/env.h"
#include "runtime/agent/copy_items.h"
#include "runtime/agent/node_check.h"
#include "runtime/agent/profile.h"
#include "runtime/agent/template.h"

namespace dlrun::agent {

struct RankOptions {
  std::vector<EnvTemplate> templates;  ///< variables for the program
  std::vector<std::string> secrets;    ///< names of secrets; see secrets.h
  std::vector<Template> words;         ///< the preset's words before the program (torchrun ...)
  Roles roles;                         ///< the number of ranks in each role except worker
  int nproc_per_node = 1;              ///< value of the field {nproc_per_node}
  NodeChecks checks;                   ///< checks before the program starts; only with lead
  ProfileOptions profile{};            ///< the profiler, and the ranks that run under it
  std::string tmpdir{};                ///< TMPDIR of the spec; empty: keep the current one
  bool program_is_bundled = false;     ///< the program is dlrun's own and gets the store
  std::vector<StageItem> stage{};      ///< data to copy to the node before the program starts
  std::vector<OutputItem> outputs{};   ///< folders to copy from the node
  std::vector<std::string> program;    ///< the program's argv
};

/// Runs the program to its end. Returns its exit code, 128 + signal if a signal ended it, or a code
/// of exit_codes.h. Without a lead and with a terminal on standard input, the program replaces this
/// process instead; checks, profile and outputs then have no effect, and a line on standard error
/// lists these options. Blocks signals. Call it once per process.
[[nodiscard]] int run_rank(const RankOptions& options, const Env& env);

}  // namespace dlrun::agent
