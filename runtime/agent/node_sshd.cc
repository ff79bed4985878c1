// sshd reads its configuration from a memory file of this process. The configuration contains the
// job's variables, which must be neither in a file on disk nor in a command line. sshd closes
// inherited descriptors before it reads the configuration. Its option -f is therefore the path of
// this process's descriptor: /proc/PID/fd/N.

#include "runtime/agent/node_sshd.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/address.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/relay.h"
#include "runtime/agent/sshd_config.h"

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the path of sshd. The PATH of users often lacks the folder of sshd.
std::optional<std::string> find_sshd(const Env& env) {
  Env search_env;
  search_env.set("PATH", env.get_or("PATH", "/usr/bin") +
                             ":/usr/sbin:/usr/local/sbin:/sbin:/usr/lib/openssh:/usr/lib/ssh");
  return find_program("sshd", search_env);
}

/// The configuration in memory.
struct ConfigFile {
  UniqueFd memory;
  std::string path;  ///< a path with which other processes of the user can open the file
};

Result<ConfigFile> make_config_file(const SshdConfig& config) {
  ConfigFile file;
  file.memory.reset(::memfd_create("sshd_config", MFD_CLOEXEC));
  if (!file.memory.is_open()) return fail(Errc::kIo, "memfd_create: {}", errno_text(errno));
  DLRUN_TRY(write_all(file.memory.get(), config.text));
  file.path = fmt::format("/proc/{}/fd/{}", ::getpid(), file.memory.get());
  return file;
}

/// Returns a configuration that this version of sshd accepts. Fails with kRefused if sshd
/// accepts neither of the two that dlrun knows.
Result<ConfigFile> accepted_config(const std::string& sshd, const SshdOptions& options,
                                   const Env& env) {
  DLRUN_TRY_ASSIGN(auto full, make_config_file(sshd_config(
                                  options.folder, env, /*leaves_out_values_with_quotes=*/false)));
  Command check;
  check.argv = {sshd, "-t", "-f", full.path};
  check.env = env;
  const auto checked = run_command(check);
  if (checked && checked->exit_code == 0) return full;
  // sshd before 8.7 misreads quotes. The plain configuration leaves out values with quotes.
  DLRUN_TRY_ASSIGN(auto plain, make_config_file(sshd_config(
                                   options.folder, env, /*leaves_out_values_with_quotes=*/true)));
  check.argv.back() = plain.path;
  DLRUN_TRY_ASSIGN(const auto again, run_command(check));
  if (again.exit_code == 0) return plain;
  return fail(Errc::kRefused, "{} refuses its configuration: {}", sshd, trim(again.err));
}

/// Blocks the signals that wait_for_end() handles, and returns a descriptor that reads them.
UniqueFd catch_end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGCHLD, SIG_DFL);  // if SIGCHLD were ignored, the kernel would reap sshd
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC));
}

/// Waits until sshd has ended or a signal asks for the end.
void wait_for_end(pid_t sshd, int signal_fd) {
  for (;;) {
    signalfd_siginfo info{};
    if (::read(signal_fd, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) continue;
    if (info.ssi_signo != SIGCHLD) return;
    for (pid_t pid = 0; (pid = ::waitpid(-1, nullptr, WNOHANG)) > 0;)
      if (pid == sshd) return;
  }
}

}  // namespace

std::string json_of_sshd_path(const Env& env) {
  const auto sshd = find_sshd(env);
  const Json found{{"sshd", sshd ? Json(*sshd) : Json()}};
  return found.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<> run_sshd(const SshdOptions& options, const Env& env) {
  const auto sshd = find_sshd(env);
  if (!sshd) return fail(Errc::kNotFound, "{} has no sshd (package openssh-server)", own_host());
  DLRUN_TRY_ASSIGN(const auto config, accepted_config(*sshd, options, env));
  const UniqueFd signals = catch_end_signals();
  if (!signals.is_open()) return fail(Errc::kIo, "signalfd: {}", errno_text(errno));
  make_raw(STDOUT_FILENO);
  adopt_orphans();
  Program program;
  program.argv = {*sshd, "-i", "-e", "-f", config.path};
  program.env = env;
  DLRUN_TRY_ASSIGN(const pid_t pid, start_program(program));
  // Otherwise this process would keep the connection open after the end of sshd.
  ::close(STDIN_FILENO);
  ::close(STDOUT_FILENO);
  wait_for_end(pid, signals.get());
  end_descendants();
  return {};
}

}  // namespace dlrun::agent
