// The program that bench/leader lets lead start in place of srun. It simulates all ranks of a large
// job in one process, and connects them to lead with the agents' own code (simulated_job.h).
//
//   bench_simulated_ranks --ranks N --per-node N --settle SECONDS --watch SECONDS --results FILE
//
// settle: the pause before the measurement. watch: how long lead's processor time is measured.
// Each simulated node has its own loopback address. The ranks join, send heartbeats as agents do,
// and one of them disappears. The program then writes its measurements to FILE, as JSON.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "bench/simulated_job.h"
#include "common/env.h"
#include "common/files.h"
#include "common/text.h"
#include "runtime/agent/program_start.h"

namespace dlrun::agent {
namespace {

using std::chrono::seconds;

constexpr rlim_t kOtherFiles = 64;  ///< descriptors that are not connections to lead

Result<SimulationOptions> parse_options(const std::vector<std::string>& arguments) {
  constexpr const char* kUsage =
      "usage: bench_simulated_ranks --ranks N --per-node N --settle SECONDS --watch SECONDS "
      "--results FILE (lead starts this program; see bench/leader)";
  SimulationOptions options;
  for (std::size_t at = 0; at + 1 < arguments.size(); at += 2) {
    const auto& name = arguments[at];
    const auto& value = arguments[at + 1];
    const auto number = parse_int(value);
    if (name == "--results") {
      options.results = value;
    } else if (!number || *number < 1 || *number > 1'000'000) {
      return fail(Errc::kUsage, "{} {}: expected a number from 1 to 1000000", name, value);
    } else if (name == "--ranks") {
      options.ranks = static_cast<int>(*number);
    } else if (name == "--per-node") {
      options.ranks_per_node = static_cast<int>(*number);
    } else if (name == "--settle") {
      options.settle = seconds(*number);
    } else if (name == "--watch") {
      options.watch = seconds(*number);
    } else {
      return fail(Errc::kUsage, "{}", kUsage);
    }
  }
  if (arguments.size() % 2 != 0 || options.ranks < 2 || options.results.empty())
    return fail(Errc::kUsage, "{}", kUsage);
  return options;
}

/// Returns the address, the secret and the process of the lead that has started this program, and
/// the ids of the job.
Result<LeadAccess> lead_access(const Env& env) {
  DLRUN_TRY_ASSIGN(const auto endpoints, parse_endpoints(env.get_or("DLRUN_LEAD", "")));
  const auto secret = key_of_text(env.get_or("DLRUN_SECRET", ""));
  if (!secret)
    return fail(Errc::kUsage, "DLRUN_SECRET has no key: only lead can start this program");
  // The simulated ranks connect from addresses such as 127.1.0.1, which reach only loopback
  // addresses. The endpoint is therefore lead's port on 127.0.0.1.
  return LeadAccess{
      .endpoint = {"127.0.0.1", endpoints.front().port},
      .secret = *secret,
      .job = env.get_or("DLRUN_JOB", ""),
      .step = "0",
      .attempt = static_cast<int>(parse_int(env.get_or("DLRUN_ATTEMPT", "0")).value_or(0)),
      .pid = ::getppid()};
}

/// Raises this process's limit on open files. Fails if the limit is still too low for one
/// descriptor per rank.
Result<> raise_and_check_file_limit(int ranks) {
  raise_file_limit();
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto wanted = static_cast<rlim_t>(ranks) + kOtherFiles;
  if (limit.rlim_cur >= wanted) return {};
  return fail(Errc::kUnavailable,
              "{} ranks need {} open files, and the hard limit is {}: raise it (`ulimit -Hn`), or "
              "simulate fewer ranks",
              ranks, wanted, limit.rlim_max);
}

/// Simulates the job that the arguments describe, and writes the measurements to the file of
/// --results.
Result<> simulate(const std::vector<std::string>& arguments) {
  DLRUN_TRY_ASSIGN(const auto options, parse_options(arguments));
  DLRUN_TRY_ASSIGN(const auto lead, lead_access(Env::of_process()));
  DLRUN_TRY(raise_and_check_file_limit(options.ranks));
  DLRUN_TRY(init_crypto());
  ignore_write_signals();
  // Lead sends these signals to this program soon after a death, when the measurement of the
  // remaining ranks has not ended yet.
  for (const int signal : {SIGTERM, SIGQUIT}) ::signal(signal, SIG_IGN);
  DLRUN_TRY_ASSIGN(const auto measured, simulate_job(options, lead));
  return write_file_atomic(options.results, measured.dump() + "\n");
}

}  // namespace
}  // namespace dlrun::agent

int main(int argc, char** argv) {
  const auto done = dlrun::agent::simulate(std::vector<std::string>(argv + 1, argv + argc));
  if (done) return 1;  // like srun, because a rank has died
  std::fprintf(stderr, "bench_simulated_ranks: %s\n", done.error().message.c_str());
  return 2;
}
