#include "runtime/agent/nccl_reports.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <map>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kAnswerLimitBytes = 1U << 20U;
constexpr std::size_t kEnvironLimitBytes = 4U << 20U;
constexpr std::size_t kDumpLimitBytes = 256U << 20U;
constexpr milliseconds kLookAtDumpEvery{50};

bool becomes_ready(int fd, short events, Clock::time_point until) {
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
  if (left <= milliseconds::zero()) return false;
  pollfd ready{.fd = fd, .events = events, .revents = 0};
  return ::poll(&ready, 1, static_cast<int>(left.count())) > 0;
}

UniqueFd connect_loopback(std::uint16_t port, Clock::time_point until) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!socket.is_open()) return {};
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return socket;
  if (errno != EINPROGRESS || !becomes_ready(socket.get(), POLLOUT, until)) return {};
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return {};
  return socket;
}

}  // namespace

std::optional<std::string> ask_nccl_ras(milliseconds limit, std::uint16_t port) {
  const auto until = Clock::now() + limit;
  const auto socket = connect_loopback(port, until);
  if (!socket.is_open()) return std::nullopt;
  constexpr std::string_view kQuestion = "verbose status\n";
  if (::send(socket.get(), kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL) < 0)
    return std::nullopt;
  std::string answer;
  std::array<char, 16384> buffer;
  while (answer.size() < kAnswerLimitBytes && becomes_ready(socket.get(), POLLIN, until)) {
    const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    answer.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return answer.empty() ? std::nullopt : std::optional(std::move(answer));
}

bool copy_flight_record(const Env& program_env, int rank, const std::filesystem::path& copy,
                        milliseconds limit) {
  const auto pipe_name = program_env.get_or("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "");
  if (pipe_name.empty()) return false;
  const std::filesystem::path dump =
      program_env.get_or("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/tmp/nccl_trace_rank_") +
      std::to_string(rank);
  std::error_code error;
  const auto old_dump_time = std::filesystem::last_write_time(dump, error);
  const bool was_there = !error;
  const UniqueFd pipe(
      ::open(fmt::format("{}{}.pipe", pipe_name, rank).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!pipe.is_open() || !write_all(pipe.get(), "1\n")) return false;
  for (const auto until = Clock::now() + limit; Clock::now() < until;
       std::this_thread::sleep_for(kLookAtDumpEvery)) {
    const auto dump_time = std::filesystem::last_write_time(dump, error);
    if (error || (was_there && dump_time == old_dump_time)) continue;
    const auto text = read_file(dump, kDumpLimitBytes);
    return text && write_file_atomic(copy, *text).has_value();
  }
  return false;
}

Env environment_of(pid_t pid) {
  std::map<std::string, std::string, std::less<>> values;
  const auto text = read_file(fmt::format("/proc/{}/environ", pid), kEnvironLimitBytes);
  if (!text) return Env();
  for (const auto entry : split(*text, '\0')) {
    if (const auto equals = entry.find('='); equals != std::string_view::npos)
      values.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return Env(std::move(values));
}

}  // namespace dlrun::agent
