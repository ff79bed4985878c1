#pragma once
// A child on the caller's own terminal: salloc, or the leader of a run on this machine.

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

/// What the caller does with SIGINT, SIGTERM and SIGHUP while the child lives.
enum class OnSignal {
  kTerminate,  ///< pass SIGTERM on to the child, once for each signal; SIGKILL on the third
  kEnd,  ///< pass SIGTERM on for each signal, never more: the child frees what it holds elsewhere
};

struct ForegroundEnd {
  int exit_code = 0;    ///< 128 + signal when a signal ended the child
  int signal = 0;       ///< the signal that ended the child, 0 for none
  int interrupted = 0;  ///< the first signal that reached the caller meanwhile, 0 for none
};

/// One child in the caller's process group, with its standard streams. Held at its start until
/// release(), so that it can be recorded before it does anything. Not thread-safe; one at a time in
/// a process. When the caller dies, the child gets SIGTERM; a child never released ends by itself.
/// The destructor ends (SIGTERM) and reaps a child that still lives.
class ForegroundProcess {
 public:
  [[nodiscard]] static Result<ForegroundProcess> start(const std::vector<std::string>& argv,
                                                       const Env& env,
                                                       const std::filesystem::path& directory,
                                                       OnSignal on_signal);
  ForegroundProcess(ForegroundProcess&&) noexcept;
  ForegroundProcess& operator=(ForegroundProcess&&) = delete;
  ~ForegroundProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  void release();
  [[nodiscard]] Result<ForegroundEnd> wait();

 private:
  ForegroundProcess(pid_t pid, UniqueFd gate, OnSignal on_signal);

  pid_t pid_ = -1;
  UniqueFd gate_;
  OnSignal on_signal_ = OnSignal::kEnd;
};

/// When the process started, in the kernel's ticks since boot: with the pid it names a process for
/// good. Nothing when there is no such process or it is a zombie.
[[nodiscard]] std::optional<std::uint64_t> process_start_ticks(pid_t pid);

/// HOST:PID:START, the id of a job that runs on this machine.
[[nodiscard]] std::optional<std::string> local_job_id(pid_t pid);

/// The host of such an id.
[[nodiscard]] std::string_view host_of_local_job(std::string_view id);

/// The process of that id ran on this machine and is no more: no other process ever has its pid and
/// start.
[[nodiscard]] bool is_gone_from_here(std::string_view id);

}  // namespace dlrun
