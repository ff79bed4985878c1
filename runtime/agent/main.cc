// The program dlrun-agent, which runs in the job's allocation. Its commands:
//   lead                     leads the run; in the batch step, or where dlrun was called
//   notify                   sends the run's notices, and its values to MLflow; beside lead
//   rank                     runs the program of one task; in every task
//   autopsy, stage, collect  help `rank`; beside the program
//   relay, sshd              serve `dlrun forward` and ssh connections; in a step of their own

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "common/env.h"
#include "runtime/agent/agent_options.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/program_start.h"

namespace {

/// Ignores signals that are meant for the job's program. Slurm may send them to all processes of a
/// step.
void ignore_signals(const std::vector<int>& numbers) {
  for (const int number : numbers) ::signal(number, SIG_IGN);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace dlrun::agent;
  const auto invocation = parse_arguments(std::vector<std::string>(argv + 1, argv + argc));
  if (!invocation) {
    std::fprintf(stderr, "dlrun-agent: %s\n", invocation.error().message.c_str());
    return kExitUsage;
  }
  const auto env = dlrun::Env::of_process();
  const auto print_any_failure = [](const dlrun::Result<>& result) {
    if (result) return 0;
    std::fprintf(stderr, "dlrun-agent: %s\n", result.error().message.c_str());
    return exit_code_of(result.error());
  };
  if (const auto* lead = std::get_if<LeadOptions>(&*invocation)) return run_lead(*lead, env);
  if (const auto* rank = std::get_if<RankOptions>(&*invocation)) return run_rank(*rank, env);
  if (const auto* autopsy = std::get_if<AutopsyOptions>(&*invocation))
    return run_autopsy(*autopsy, env);
  const auto print_report = [](const CopyReport& report) {
    std::puts(report.line().c_str());
    return report.error.empty() ? 0 : 1;
  };
  if (const auto* stage = std::get_if<StageOptions>(&*invocation)) {
    ignore_signals({SIGUSR1, SIGUSR2});
    return print_report(stage_data(*stage, env));
  }
  if (const auto* collect = std::get_if<CollectOptions>(&*invocation)) {
    // Outputs are copied even after a signal has ended the program. The agent kills a copy that
    // lasts too long.
    ignore_signals({SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP});
    std::ignore = ::nice(10);  // copying must not slow the program
    return print_report(collect_outputs(*collect, env));
  }
  if (const auto* relay = std::get_if<RelayOptions>(&*invocation))
    return print_any_failure(run_relay(*relay));
  if (const auto* sshd = std::get_if<SshdOptions>(&*invocation)) {
    if (!sshd->only_finds_sshd) return print_any_failure(run_sshd(*sshd, env));
    std::puts(json_of_sshd_path(env).c_str());
    return 0;
  }
  if (const auto* notify = std::get_if<SendHelperOptions>(&*invocation)) {
    return run_send_helper(*notify, env, [](std::string_view line) {
      std::fprintf(stderr, "dlrun: %.*s\n", static_cast<int>(line.size()), line.data());
    });
  }
  if (std::holds_alternative<VersionAsked>(*invocation)) {
    std::puts("dlrun-agent " DLRUN_VERSION);
  } else {
    std::fputs(kUsageText, stdout);
  }
  return 0;
}
