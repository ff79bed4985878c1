#include "runtime/agent/rank_autopsy.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include <fmt/format.h>

#include "runtime/agent/autopsy.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/pump.h"

namespace dlrun::agent {

Result<> RankAutopsy::start(const Env& env, const World& world, const std::filesystem::path& folder,
                            const std::vector<pid_t>& pids) {
  if (pid_ > 0) return fail(Errc::kInternal, "an autopsy is under way");
  auto pipe = make_output_pipe();
  if (!pipe) return tl::unexpected<Error>(pipe.error());
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto file = folder / fmt::format("rank-{:04}.txt", world.rank);
  Program program{.argv = {"/proc/self/exe", "autopsy", "--file", file.string(), "--rank",
                           std::to_string(world.rank)},
                  .env = env,
                  .in = null.get(),
                  .out = pipe->write_end.get(),
                  .err = null.get(),
                  .dies_with_us = true};
  if (world.local_rank == 0) program.argv.emplace_back("--ask-ras");
  program.argv.emplace_back("--");
  for (const pid_t pid : pids) program.argv.push_back(std::to_string(pid));
  program.env.remove_matching({"DLRUN_SECRET"}, {});
  const auto pid = start_program(program);
  if (!pid) return tl::unexpected<Error>(pid.error());
  pid_ = *pid;
  out_ = std::move(pipe->read_end);
  return {};
}

std::optional<to_lead::Autopsy> RankAutopsy::on_reaped(pid_t pid) {
  if (pid <= 0 || pid != pid_) return std::nullopt;
  pid_ = -1;
  // The line is shorter than a pipe's buffer, so it is complete once its writer has ended.
  std::string line;
  std::array<char, 4096> buffer;
  for (ssize_t got = 0; (got = ::read(out_.get(), buffer.data(), buffer.size())) > 0;)
    line.append(buffer.data(), static_cast<std::size_t>(got));
  out_.reset();
  return to_lead::Autopsy{frames_of_line(line)};
}

}  // namespace dlrun::agent
