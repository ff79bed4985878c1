#include "runtime/agent/lead_connection.h"

#include <sys/epoll.h>

#include <chrono>

#include "common/text.h"
#include "runtime/agent/address.h"
#include "runtime/agent/component_options.h"
#include "runtime/agent/protocol.h"

namespace dlrun::agent {
namespace {

constexpr std::chrono::milliseconds kConnectLimit{60'000};

}  // namespace

Result<> LeadConnection::connect(const Env& env, int rank,
                                 const std::function<bool()>& should_stop) {
  auto endpoints = parse_endpoints(env.get_or("DLRUN_LEAD", ""));
  if (!endpoints) return within("DLRUN_LEAD", endpoints.error());
  const auto secret = key_of_text(env.get_or("DLRUN_SECRET", ""));
  if (!secret)
    return fail(Errc::kInvalid, "DLRUN_SECRET is missing or is not 64 hexadecimal digits");
  // First tries Slurm's address of the node where srun runs. This address is more reliable than the
  // addresses that lead found for itself.
  if (const auto launch = env.get("SLURM_LAUNCH_NODE_IPADDR"); launch && !is_loopback(*launch)) {
    if (auto first =
            parse_endpoints(Endpoint{std::string(*launch), endpoints->front().port}.text())) {
      std::erase(*endpoints, first->front());
      endpoints->insert(endpoints->begin(), first->front());
    }
  }
  const RankIdentity identity{
      env.get_or("DLRUN_JOB", ""), env.get_or("SLURM_STEP_ID", "local"),
      static_cast<int>(parse_int(env.get_or("DLRUN_ATTEMPT", "0")).value_or(0)), rank,
      component_of(env)};
  auto link = Link::connect(*endpoints, *secret, identity, kConnectLimit, should_stop);
  if (!link) return tl::unexpected<Error>(std::move(link.error()));
  link_ = std::move(*link);
  watch_ =
      loop_.watch(link_->socket(), EPOLLIN, [this](std::uint32_t events) { on_ready(events); });
  return {};
}

void LeadConnection::on_ready(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    link_->flush();
    waits_to_send_ = link_->holds_bytes();
    if (watch_) loop_.change(*watch_, waits_to_send_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  receive();
}

void LeadConnection::receive() {
  if (!link_->receive(on_message_)) on_link_closed();
}

void LeadConnection::send(const MessageToLead& message) {
  if (!is_open()) return;
  link_->send(text_of(json_of(message)));
  if (!link_->is_open()) return on_link_closed();
  if (watch_ && link_->holds_bytes() != waits_to_send_) {
    waits_to_send_ = !waits_to_send_;
    loop_.change(*watch_, waits_to_send_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
}

void LeadConnection::on_link_closed() {
  if (!watch_) return;
  loop_.unwatch(*watch_);
  watch_.reset();
  on_closed_();
}

}  // namespace dlrun::agent
