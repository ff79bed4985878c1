#include "runtime/agent/store_relay.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include <nlohmann/json.hpp>

#include "common/bounded_json.h"
#include "runtime/agent/protocol.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kLineLimitBytes = 1U << 20U;
constexpr std::size_t kMessageOverheadBytes = 256;  // bytes that the message to lead adds

bool is_text(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string();
}

bool is_hex(const Json& object, std::string_view key) {
  return is_text(object, key) && object.find(key)->get_ref<const std::string&>().find_first_not_of(
                                     "0123456789abcdefABCDEF") == std::string::npos;
}

}  // namespace

StoreRelay::StoreRelay(EventLoop& loop, std::function<void(const MessageToLead&)> to_lead,
                       UniqueFd ours, UniqueFd theirs)
    : loop_(loop),
      to_lead_(std::move(to_lead)),
      ours_(std::move(ours)),
      theirs_(std::move(theirs)) {}

Result<std::unique_ptr<StoreRelay>> StoreRelay::create(
    EventLoop& loop, std::function<void(const MessageToLead&)> to_lead) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(Errc::kIo, "socketpair: {}", errno_text(errno));
  }
  std::unique_ptr<StoreRelay> relay(
      new StoreRelay(loop, std::move(to_lead), UniqueFd(ends[0]), UniqueFd(ends[1])));
  relay->watch_ = loop.watch(ends[0], EPOLLIN,
                             [raw = relay.get()](std::uint32_t events) { raw->on_ready(events); });
  return relay;
}

StoreRelay::~StoreRelay() {
  close();
}

void StoreRelay::close() {
  if (watch_) loop_.unwatch(*watch_);
  watch_.reset();
  ours_.reset();
}

void StoreRelay::update_watch() {
  if (!watch_) return;
  // Back-pressure: while a request waits for lead, further requests stay in the socket, so that the
  // program cannot fill the agent's memory.
  loop_.change(*watch_, (awaited_ ? 0U : EPOLLIN) | (out_.empty() ? 0U : EPOLLOUT));
}

void StoreRelay::on_ready(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) flush();
  if (ours_.is_open() && !awaited_ && (events & (EPOLLIN | EPOLLHUP)) != 0) {
    std::array<char, 1U << 16U> buffer;
    const ssize_t got = ::recv(ours_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return close();
    if (got > 0) in_.append(buffer.data(), static_cast<std::size_t>(got));
  } else if ((events & EPOLLHUP) != 0) {
    return close();
  }
  serve();
  update_watch();
}

void StoreRelay::drain() {
  for (std::size_t taken = 0; taken <= kLineLimitBytes && ours_.is_open() && !awaited_;) {
    std::array<char, 1U << 16U> buffer;
    const ssize_t got = ::recv(ours_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    taken += static_cast<std::size_t>(got);
    in_.append(buffer.data(), static_cast<std::size_t>(got));
    serve();
  }
  update_watch();
}

void StoreRelay::serve() {
  while (ours_.is_open() && !awaited_) {
    const auto end = in_.find('\n');
    if (end == std::string::npos) {
      if (in_.size() <= kLineLimitBytes) return;
      reply({{"ok", false}, {"error", "the request has more than 1 MiB"}, {"code", "invalid"}});
      return close();
    }
    const auto line = in_.substr(0, end);
    in_.erase(0, end + 1);
    handle(line);
  }
}

void StoreRelay::handle(std::string_view line) {
  const auto refuse = [&](std::string_view why) {
    reply({{"ok", false}, {"error", why}, {"code", "invalid"}});
  };
  if (line.size() > kPayloadLimitBytes - kMessageOverheadBytes)
    return refuse(fmt::format("the request has {} bytes; at most {} are allowed", line.size(),
                              kPayloadLimitBytes - kMessageOverheadBytes));
  const auto request = parse_json<Json>(line);
  if (!request.is_object() || !is_text(request, "op"))
    return refuse("the request is not a JSON object with a text \"op\"");
  const auto op = request["op"].get<std::string>();
  if (op == "progress") {
    Json body = request;
    body.erase("op");
    return to_lead_(to_lead::Progress{std::move(body)});
  }
  if (op != "put" && op != "get")
    return refuse("an unknown \"op\": put, get and progress are known");
  if (!is_text(request, "key")) return refuse("\"key\" is not a text");
  const auto key = request["key"].get<std::string>();
  if (op == "put") {
    if (!is_hex(request, "value")) return refuse("\"value\" is not a text of hex digits");
    awaited_ = next_id_++;
    return to_lead_(to_lead::Put{*awaited_, key, request["value"].get<std::string>()});
  }
  to_lead::Get get{.id = next_id_, .key = key};
  if (const auto wait = request.find("wait_ms"); wait != request.end()) {
    if (!wait->is_number_integer()) return refuse("\"wait_ms\" is not a whole number");
    get.wait_ms = wait->get<std::int64_t>();
  }
  awaited_ = next_id_++;
  to_lead_(get);
}

void StoreRelay::on_reply(const to_rank::Reply& message) {
  if (!awaited_ || message.id != *awaited_) return;
  awaited_.reset();
  Json object{{"ok", message.ok}};
  if (message.value) object["value"] = *message.value;
  if (message.error) object["error"] = *message.error;
  if (message.code) object["code"] = *message.code;
  // Lead leaves an empty value out, so the object may have no "value".
  reply(object);
  serve();
  update_watch();
}

void StoreRelay::reply(const Json& object) {
  out_ += object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  flush();
}

void StoreRelay::flush() {
  while (ours_.is_open() && !out_.empty()) {
    const ssize_t sent = ::send(ours_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) return close();
    out_.erase(0, static_cast<std::size_t>(sent));
  }
  update_watch();
}

}  // namespace dlrun::agent
