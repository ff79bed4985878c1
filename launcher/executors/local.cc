// Jobs that dlrun starts as a process on this machine instead of queueing them. `dlrun run` starts
// `dlrun-agent lead` in the foreground (foreground.h). `dlrun run --here` and `dlrun submit --in`
// start the job's script in the background (detached.h); the script starts the ranks with srun in
// the user's allocation. Other processes identify the job by host, pid and start time.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/files.h"
#include "common/text.h"
#include "launcher/executors/executor.h"
#include "launcher/executors/foreground.h"

namespace dlrun {
namespace {

/// Returns a pidfd, which refers to the same process even after its pid is reused. Kernels before
/// 5.3 have no pidfds; the descriptor is then not open and the caller uses the pid.
UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

int send_signal(const UniqueFd& process, pid_t pid, int signal) {
  if (!process.is_open()) return ::kill(pid, signal);
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0));
}

/// Returns true if this user started the process with the run's token in its environment. Reads the
/// environment that the process got at its start, which setenv() does not change.
bool carries_token(pid_t pid, std::string_view token) {
  constexpr std::size_t kMostBytes = 16U << 20U;
  const UniqueFd folder(
      ::open(fmt::format("/proc/{}", pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat info {};
  if (!folder.is_open() || ::fstat(folder.get(), &info) != 0 || info.st_uid != ::geteuid())
    return false;
  const UniqueFd file(::openat(folder.get(), "environ", O_RDONLY | O_CLOEXEC));
  if (!file.is_open() || token.empty()) return false;
  std::string text;
  std::array<char, 65536> buffer;
  while (text.size() < kMostBytes) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  for (const std::string_view entry : split(text, '\0')) {
    constexpr std::string_view kName = "DLRUN_TOKEN=";
    if (entry.starts_with(kName) && entry.substr(kName.size()) == token) return true;
  }
  return false;
}

class LocalExecutor final : public Executor {
 public:
  Result<> check(const SubmitRequest&) override { return {}; }

  Result<JobId> submit(const SubmitRequest&) override {
    return fail(Errc::kUsage, "a job on this machine has no queue: start it with `dlrun run`");
  }

  Result<std::string> test(const SubmitRequest&) override { return std::string("this machine"); }

 private:
  Result<std::optional<JobId>> do_find(std::string_view, const std::string&) override {
    return std::nullopt;
  }

  Result<QueryAnswer> do_query(std::span<const JobId> jobs, std::chrono::milliseconds) override {
    QueryAnswer answer;
    for (const auto& job : jobs) {
      const auto local = parse_local_job(job.id);
      if (!local || local_job_id(local->pid) != job.id) continue;
      JobReport report;
      report.job = job;
      report.phase = JobPhase::kRunning;
      report.state = "RUNNING";
      report.nodes = local->host;
      answer.reports.push_back(std::move(report));
    }
    return answer;
  }

  Result<> do_cancel(const JobId& job, std::string_view token) override {
    const auto local = parse_local_job(job.id);
    if (!local) return check_job_id(job);
    const auto self = local_job_id(::getpid());
    if (self && !self->starts_with(local->host + ":")) {
      return fail(Errc::kNotFound, "the job runs on {}: cancel it there", local->host);
    }
    const UniqueFd process = open_pidfd(local->pid);
    // Another process may have the pid by now. Only the job's process has the recorded start time.
    if (local_job_id(local->pid) != job.id)
      return fail(Errc::kNotFound, "process {} of its job has ended", local->pid);
    if (!carries_token(local->pid, token)) {
      return fail(Errc::kNotFound,
                  "process {} does not have the run's token in its environment, or belongs to "
                  "another user, so it is left alone",
                  local->pid);
    }
    if (send_signal(process, local->pid, SIGTERM) != 0)
      return fail(Errc::kIo, "cannot signal process {}: {}", local->pid, errno_text(errno));
    return {};
  }
};

}  // namespace

std::unique_ptr<Executor> make_local(const Env&) {
  return std::make_unique<LocalExecutor>();
}

}  // namespace dlrun
