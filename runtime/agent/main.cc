// The program dlrun-agent, which runs in the job's allocation: `lead` in the batch step, `rank`
// around every task.

#include <unistd.h>

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "common/env.h"
#include "runtime/agent/agent_options.h"
#include "runtime/agent/exit_codes.h"

int main(int argc, char** argv) {
  using namespace dlrun::agent;
  const auto invocation = parse_arguments(std::vector<std::string>(argv + 1, argv + argc));
  if (!invocation) {
    std::fprintf(stderr, "dlrun-agent: %s\n", invocation.error().message.c_str());
    return kExitUsage;
  }
  const auto env = dlrun::Env::of_process();
  if (const auto* lead = std::get_if<LeadOptions>(&*invocation)) return lead_run(*lead, env);
  if (const auto* rank = std::get_if<RankOptions>(&*invocation)) return run_rank(*rank, env);
  if (const auto* autopsy = std::get_if<AutopsyOptions>(&*invocation))
    return run_autopsy(*autopsy, env);
  if (std::holds_alternative<VersionAsked>(*invocation)) {
    std::puts("dlrun-agent " DLRUN_VERSION);
  } else {
    std::fputs(kUsageText, stdout);
  }
  return 0;
}
