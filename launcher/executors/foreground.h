#pragma once
// Runs a child on the caller's own terminal: salloc, ssh, or the `dlrun-agent lead` of a run on
// this machine. Also makes and checks the ids of jobs on this machine.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// The caller's reaction to SIGINT, SIGTERM, SIGHUP and SIGQUIT while the child lives.
enum class OnSignal {
  /// Sends SIGTERM to the child for the first two signals, and SIGKILL for each later one.
  kTermThenKill,
  /// Sends SIGTERM for each signal and never SIGKILL, so that the child can release an allocation.
  kTermOnly,
};

struct ForegroundEnd {
  int exit_code = 0;     ///< 128 + signal if a signal ended the child
  int signal = 0;        ///< the signal that ended the child, 0: none
  int first_signal = 0;  ///< the first signal that the caller got during wait(), 0: none
};

/// A child in the caller's process group with the caller's standard streams. The child waits at its
/// start until let_run(), so that the caller can record the child's pid before argv runs. Not
/// thread-safe; a process may have only one ForegroundProcess at a time. If the caller dies, the
/// child gets SIGTERM, or exits by itself if let_run() was never called. The destructor sends
/// SIGTERM to a child that still lives, and reaps it.
class ForegroundProcess {
 public:
  /// Starts the child. env: its whole environment. directory: its working directory; empty: the
  /// caller's. Fails with kNotFound if argv[0] is not in PATH, and with kIo if no process can be
  /// made. If `directory` or the program cannot be used, only the exit code shows it: 126 or 127.
  [[nodiscard]] static Result<ForegroundProcess> start(const std::vector<std::string>& argv,
                                                       const Env& env,
                                                       const std::filesystem::path& directory,
                                                       OnSignal on_signal);
  ForegroundProcess(ForegroundProcess&&) noexcept;
  ForegroundProcess& operator=(ForegroundProcess&&) = delete;
  ~ForegroundProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Lets the child run argv. Does nothing if the child already runs.
  void let_run();
  /// Calls let_run(), and waits for the child's end. Handles the caller's signals as `on_signal`
  /// says.
  [[nodiscard]] Result<ForegroundEnd> wait();

 private:
  ForegroundProcess(std::vector<std::string> argv, pid_t pid, UniqueFd start_pipe,
                    OnSignal on_signal);

  std::vector<std::string> argv_;  ///< for the log
  pid_t pid_ = -1;
  UniqueFd start_pipe_;
  OnSignal on_signal_ = OnSignal::kTermOnly;
};

/// Returns the process's start time in clock ticks since boot. Together with the pid it identifies
/// the process uniquely. Returns nullopt if the process does not exist or is a zombie.
[[nodiscard]] std::optional<std::uint64_t> process_start_ticks(pid_t pid);

/// Returns HOST:PID:START, the id of a job that runs on this machine; nullopt if the process does
/// not exist or is a zombie.
[[nodiscard]] std::optional<std::string> local_job_id(pid_t pid);

/// Returns the host in a local job's id.
[[nodiscard]] std::string_view host_of_local_job(std::string_view id);

/// Returns the PID namespace of this process, such as "pid:[4026531836]"; empty if unknown. A
/// container may have the machine's host name, but another PID namespace.
[[nodiscard]] std::string own_pid_namespace();

/// Returns true if the process of a local job was on this machine and has ended. pid_namespace: the
/// recorded PID namespace of the process; empty: none is recorded, and the machine's initial
/// namespace is assumed. Returns false if the caller has another namespace or does not know its
/// own: the process may still run, and its pid means nothing here.
[[nodiscard]] bool has_local_process_ended(std::string_view id, std::string_view pid_namespace);

}  // namespace dlrun
