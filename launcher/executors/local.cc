// Jobs on this machine, without Slurm. `dlrun run` starts the leader in the foreground (foreground.h); from any other
// process the job is known by host, pid and start time.

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/files.h"
#include "common/text.h"
#include "launcher/executors/executor.h"
#include "launcher/executors/foreground.h"

namespace dlrun {
namespace {

struct LocalJob {
  std::string host;
  pid_t pid = -1;
  std::string full;
};

std::optional<LocalJob> parse(const std::string& id) {
  const auto parts = split(id, ':');
  if (parts.size() != 3) return std::nullopt;
  const auto pid = parse_int(parts[1]);
  if (!pid || *pid <= 1) return std::nullopt;
  return LocalJob{std::string(parts[0]), static_cast<pid_t>(*pid), id};
}

class Local final : public Executor {
 public:
  Result<> check(const SubmitRequest&) override { return {}; }

  Result<JobId> submit(const SubmitRequest&) override {
    return fail(Errc::kUsage, "a job on this machine has no queue: start it with `dlrun run`");
  }

  Result<std::string> test(const SubmitRequest&) override { return std::string("this machine"); }

  Result<std::optional<JobId>> find(std::string_view, const std::string&) override { return std::nullopt; }

  Result<QueryAnswer> query(std::span<const JobId> jobs, std::chrono::milliseconds) override {
    QueryAnswer answer;
    for (const auto& job : jobs) {
      const auto local = parse(job.id);
      if (!local || local_job_id(local->pid) != local->full) continue;
      JobReport report;
      report.job = job;
      report.phase = JobPhase::kRunning;
      report.state = "RUNNING";
      report.nodes = local->host;
      answer.reports.push_back(std::move(report));
    }
    return answer;
  }

  Result<> cancel(const JobId& job) override {
    const auto local = parse(job.id);
    if (!local) return fail(Errc::kNotFound, "'{}' is not the id of a job on this machine", printable(job.id));
    const auto self = local_job_id(::getpid());
    if (self && !self->starts_with(local->host + ":")) {
      return fail(Errc::kNotFound, "the job runs on {}: cancel it there", local->host);
    }
    // The pid may be another process's by now: only the one with the recorded start time is ours.
    if (local_job_id(local->pid) != local->full) return fail(Errc::kNotFound, "its process {} is gone", local->pid);
    if (::kill(local->pid, SIGTERM) != 0)
      return fail(Errc::kIo, "cannot signal process {}: {}", local->pid, errno_text(errno));
    return {};
  }
};

}  // namespace

std::unique_ptr<Executor> make_local(const Env&) {
  return std::make_unique<Local>();
}

}  // namespace dlrun
