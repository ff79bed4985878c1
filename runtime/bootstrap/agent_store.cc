#include "runtime/bootstrap/agent_store.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include <nlohmann/json.hpp>

#include "common/bounded_json.h"
#include "common/text.h"

namespace dlrun {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr std::size_t kLineLimitBytes = 1U << 20U;

std::string hex_of(std::string_view bytes) {
  return to_hex(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}

struct Reply {
  bool ok = false;
  std::string value_hex;
  std::string error;
  std::string code;
};

/// Returns the error code in the reply to a refused request; kRefused if the code is unknown.
/// Returns `otherwise` if the reply has no code: older agents send none.
Errc code_of(const Reply& reply, Errc otherwise) {
  if (reply.code.empty()) return otherwise;
  return reply.code == "timeout"   ? Errc::kTimeout
         : reply.code == "invalid" ? Errc::kInvalid
                                   : Errc::kRefused;
}

Result<Reply> parse_reply(std::string_view line) {
  const auto json = parse_json<nlohmann::json>(line, limits_for_sorted_json());
  if (!json.is_object() || !json.contains("ok") || !json["ok"].is_boolean()) {
    return fail(Errc::kInternal, "store: the agent answered '{}', expected an object with \"ok\"",
                printable(line.substr(0, 200)));
  }
  Reply reply;
  reply.ok = json["ok"].get<bool>();
  if (const auto value = json.find("value"); value != json.end() && value->is_string())
    reply.value_hex = value->get<std::string>();
  if (const auto error = json.find("error"); error != json.end() && error->is_string())
    reply.error = error->get<std::string>();
  if (const auto code = json.find("code"); code != json.end() && code->is_string())
    reply.code = code->get<std::string>();
  return reply;
}

}  // namespace

Result<std::unique_ptr<AgentStore>> AgentStore::open(UniqueFd socket, milliseconds answer_within) {
  int type = 0;
  socklen_t length = sizeof type;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) {
    return fail(Errc::kInvalid,
                "store: descriptor {} is not a stream socket; expected the socket that the "
                "program inherits from `dlrun-agent rank --bundled`",
                socket.get());
  }
  if (::fcntl(socket.get(), F_SETFD, FD_CLOEXEC) != 0)
    return fail(Errc::kIo, "store: {}", errno_text(errno));
  return std::unique_ptr<AgentStore>(new AgentStore(std::move(socket), answer_within));
}

Result<> AgentStore::send_line(std::string_view line) {
  if (!socket_.is_open())
    return fail(Errc::kUnavailable, "store: the connection to the agent is closed");
  const auto deadline = steady_clock::now() + answer_within_;
  while (!line.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      line.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
      if (left <= milliseconds::zero()) {
        socket_.reset();  // part of the line may have been sent
        return fail(Errc::kTimeout, "store: the agent did not accept the request within {} ms",
                    answer_within_.count());
      }
      pollfd writable{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, static_cast<int>(std::min<milliseconds::rep>(left.count(), 60'000)));
    } else if (errno != EINTR) {
      const int error = errno;
      socket_.reset();
      return fail(Errc::kUnavailable, "store: the agent cannot be reached: {}", errno_text(error));
    }
  }
  return {};
}

Result<std::string> AgentStore::receive_line(milliseconds limit) {
  const auto deadline = steady_clock::now() + limit;
  for (std::size_t searched = 0;;) {
    if (const auto end = received_.find('\n', searched); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    searched = received_.size();
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left <= milliseconds::zero()) {
      socket_.reset();  // otherwise the next request would read the late answer
      return fail(Errc::kTimeout, "store: the agent did not answer within {} ms", limit.count());
    }
    pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const int ready =
        ::poll(&readable, 1, static_cast<int>(std::min<milliseconds::rep>(left.count(), 60'000)));
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    std::array<char, 16384> chunk;
    const ssize_t got =
        ready < 0 ? -1 : ::recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0 || received_.size() > kLineLimitBytes) {
      const int error = errno;
      socket_.reset();
      if (got < 0)
        return fail(Errc::kUnavailable, "store: the agent cannot be reached: {}",
                    errno_text(error));
      if (got == 0)
        return fail(Errc::kUnavailable,
                    "store: the agent closed the connection; the attempt is ending");
      return fail(Errc::kInternal, "store: the agent answered with a line of more than {} bytes",
                  kLineLimitBytes);
    }
    received_.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

Result<> AgentStore::put(std::string_view key, std::string_view value) {
  if (value.size() > kStoreValueLimitBytes) {
    return fail(Errc::kInvalid, "store: the value of '{}' has {} bytes, at most {} are allowed",
                printable(key), value.size(), kStoreValueLimitBytes);
  }
  const nlohmann::json request{{"op", "put"}, {"key", key}, {"value", hex_of(value)}};
  const std::lock_guard lock(mutex_);
  DLRUN_TRY(
      send_line(request.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + '\n'));
  DLRUN_TRY_ASSIGN(const auto line, receive_line(answer_within_));
  DLRUN_TRY_ASSIGN(const auto reply, parse_reply(line));
  if (!reply.ok)
    return fail(code_of(reply, Errc::kRefused), "store: put '{}': {}", printable(key),
                printable(reply.error));
  return {};
}

Result<std::string> AgentStore::get(std::string_view key, milliseconds wait) {
  const nlohmann::json request{{"op", "get"}, {"key", key}, {"wait_ms", wait.count()}};
  const std::lock_guard lock(mutex_);
  DLRUN_TRY(
      send_line(request.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + '\n'));
  DLRUN_TRY_ASSIGN(const auto line, receive_line(wait + answer_within_));
  DLRUN_TRY_ASSIGN(const auto reply, parse_reply(line));
  if (!reply.ok)
    return fail(code_of(reply, Errc::kTimeout), "store: get '{}': {}", printable(key),
                printable(reply.error));
  const auto value = from_hex(reply.value_hex);
  if (!value)
    return fail(Errc::kInternal, "store: get '{}': the agent's value is not hex", printable(key));
  return std::string(value->begin(), value->end());
}

Result<> AgentStore::report_progress(std::string_view json_object) {
  auto request = parse_json<nlohmann::json>(json_object, limits_for_sorted_json());
  if (!request.is_object()) {
    return fail(Errc::kInvalid, "store: progress is not a JSON object: {}",
                printable(json_object.substr(0, 200)));
  }
  request["op"] = "progress";
  const std::lock_guard lock(mutex_);
  return send_line(request.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + '\n');
}

}  // namespace dlrun
