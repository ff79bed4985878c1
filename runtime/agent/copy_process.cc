#include "runtime/agent/copy_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>

#include <fmt/format.h>

#include "common/subprocess.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/pump.h"

namespace dlrun::agent {
namespace {

constexpr int kPipeBytes = 1 << 20;

}  // namespace

Result<> CopyProcess::start(const Env& env, const std::vector<std::string>& arguments) {
  if (pid_ > 0) return fail(Errc::kInternal, "a copy is under way");
  auto pipe = make_output_pipe();
  if (!pipe) return tl::unexpected<Error>(pipe.error());
  // The agent reads the report only after the process has ended, so the whole report must fit into
  // the pipe. The report of many items may need more than the usual 64 KiB.
  ::fcntl(pipe->write_end.get(), F_SETPIPE_SZ, kPipeBytes);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  Program program{.argv = {"/proc/self/exe"},
                  .env = env,
                  .in = null.get(),
                  .out = pipe->write_end.get(),
                  .err = null.get(),
                  .dies_with_us = true};
  program.argv.insert(program.argv.end(), arguments.begin(), arguments.end());
  program.env.remove_matching({"DLRUN_SECRET"}, {});
  const auto pid = start_program(program);
  if (!pid) return tl::unexpected<Error>(pid.error());
  pid_ = *pid;
  is_killed_ = false;
  out_ = std::move(pipe->read_end);
  return {};
}

std::optional<CopyReport> CopyProcess::on_reaped(pid_t pid, int status) {
  if (pid <= 0 || pid != pid_) return std::nullopt;
  pid_ = -1;
  std::string line;
  std::array<char, 4096> buffer;
  for (ssize_t got = 0; (got = ::read(out_.get(), buffer.data(), buffer.size())) > 0;)
    line.append(buffer.data(), static_cast<std::size_t>(got));
  out_.reset();
  if (!WIFSIGNALED(status)) return CopyReport::of_line(line);
  CopyReport report;
  report.error = is_killed_
                     ? "the copying did not end within its time limit"
                     : fmt::format("the copying was killed by {}", signal_name(WTERMSIG(status)));
  return report;
}

void CopyProcess::kill() {
  if (pid_ <= 0) return;
  is_killed_ = true;
  ::kill(pid_, SIGKILL);
}

}  // namespace dlrun::agent
