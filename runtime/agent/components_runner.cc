// Lead's event loop during one attempt of a job with components.
#include "runtime/agent/components_runner.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/json_lines.h"
#include "common/log.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/component_step.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Longest wait of one round of the event loop.
constexpr milliseconds kComponentsTick{500};
constexpr seconds kReadyLimit{600};  ///< limit for a component whose `ready` has no timeout
/// Longest wait for srun after the ranks of a component have ended with 0.
constexpr seconds kSrunEndLimit{90};
/// Longest wait until the final components.json is written.
constexpr milliseconds kFinalWriteLimit{1000};
/// Time for a signal to the job to reach lead and the ranks of all components.
constexpr milliseconds kSignalSpread{500};

}  // namespace

ComponentsRunner::ComponentsRunner(const AttemptContext& context)
    : context_(context),
      course_(context.options.components),
      later_attempt_watch_(context.run.directory, context.run.attempt),
      components_file_(context.run.directory / "components.json") {}

LeadOptions ComponentsRunner::options_for(const ComponentOptions& component) const {
  auto options = context_.options;
  options.components.clear();
  options.node_checks = component.node_checks;
  options.program_is_bundled = component.program_is_bundled;
  if (component.ready.kind == ReadyCheck::Kind::kJoined && component.ready.timeout)
    options.join_timeout = *component.ready.timeout;
  if (component.role == ComponentRole::kService) options.idle_gpu_after.reset();
  if (&component != &first_main_component(context_.options.components)) {
    options.stop_early = {};
    options.writes_tensorboard = false;
  }
  return options;
}

bool ComponentsRunner::is_first_main(const Slot& slot) const {
  return &slot.options == &first_main_component(context_.options.components);
}

Result<> ComponentsRunner::prepare() {
  DLRUN_TRY_ASSIGN(auto listener, listen_on_free_port(false));
  connections_ =
      std::make_unique<RankConnections>(context_.loop, *this, std::move(listener), Secrets{});
  addresses_ = lead_addresses(false);
  slots_.reserve(context_.options.components.size());
  for (const auto& component : context_.options.components) {
    DLRUN_TRY_ASSIGN(auto command, component_command(component, context_.env));
    slots_.push_back(Slot{.options = component,
                          .lead_options = options_for(component),
                          .command = std::move(command)});
  }
  return {};
}

void ComponentsRunner::record(const RunEvent& event, const std::string& component) {
  if (!is_superseded_) context_.events.record(event, component);
}

void ComponentsRunner::record_components() {
  events::Components components;
  for (const auto& one : context_.options.components) {
    components.components.push_back({.name = one.name,
                                     .role = one.role,
                                     .nodes = one.node_count,
                                     .ranks = one.rank_count,
                                     .after = one.after});
  }
  record(components);
}

Result<AttemptEnd> ComponentsRunner::run() {
  DLRUN_TRY(prepare());
  record_components();
  const auto signals =
      context_.loop.watch(context_.signal_fd, EPOLLIN, [this](std::uint32_t) { take_signals(); });
  carry_out(course_.take_orders());
  write_components_file();
  while (!course_.is_over()) {
    context_.loop.run_once(next_wait());
    tick();
  }
  auto end = course_.attempt_end();
  const auto decider = course_.decider();
  const auto time = std::chrono::duration_cast<milliseconds>(Clock::now() - began_);
  record(recorded_end(end, static_cast<double>(time.count()) / 1000.0),
         decider ? slots_[*decider].options.name : std::string());
  // A service that ends by itself has failed, even with code 0. Its own attempt reported no
  // failure, so this line tells the user.
  if (decider && end.code != 0 && slots_[*decider].runner->attempt().end().code == 0)
    context_.err.push(fmt::format("dlrun: {}\n", end.message));
  write_components_file();
  wait_for_steps(end);
  std::ignore = components_file_.drain(kFinalWriteLimit);
  for (auto& slot : slots_) slot.runner.reset();
  if (signals) context_.loop.unwatch(*signals);
  return end;
}

void ComponentsRunner::wait_for_steps(const AttemptEnd& end) {
  const auto all_are_over = [this] {
    bool all = true;
    for (auto& slot : slots_) all = (!slot.runner || slot.runner->tick_step()) && all;
    return all;
  };
  if (end.code != 0 || all_are_over()) return;
  context_.on_success_before_srun_exits(end);
  const auto until = Clock::now() + kSrunEndLimit;
  while (!all_are_over() && Clock::now() < until && end_signal_count_ < 2) {
    context_.loop.run_once(kComponentsTick);
    for (auto& slot : slots_) {
      if (slot.runner) slot.runner->reap();
    }
  }
}

void ComponentsRunner::take_signals() {
  signalfd_siginfo info{};
  while (::read(context_.signal_fd, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    const bool asks_for_end = signal != SIGCHLD && signal != SIGUSR1;
    if (asks_for_end) ++end_signal_count_;
    for (auto& slot : slots_) {
      if (!slot.runner) continue;
      if (signal == SIGCHLD) slot.runner->reap();
      if (signal == SIGCHLD || slot.is_over) continue;
      // The attempt of a service that waits for its next start is over and records no signal.
      if (asks_for_end && slot.runner->attempt().is_over()) {
        record(
            events::Signal{
                .signal = signal_name(signal), .where = "lead", .decision = SignalDecision::kAbort},
            slot.options.name);
      }
      slot.runner->on_signal(signal);
    }
    if (asks_for_end) course_.on_signal(signal);
  }
}

void ComponentsRunner::carry_out(const std::vector<ComponentCourse::Order>& orders) {
  for (const auto& order : orders) {
    is_file_outdated_ = true;
    if (order.kind == ComponentCourse::Order::Kind::kStart) {
      start(order.at);
    } else {
      slots_[order.at].probe.reset();
      slots_[order.at].runner->attempt().stop(order.why, Clock::now());
    }
  }
}

void ComponentsRunner::start(std::size_t index) {
  auto& slot = slots_[index];
  slot.runner.reset();
  slot.has_joined = slot.is_over = false;
  slot.ended_at.reset();
  slot.began = Clock::now();
  slot.context.emplace(AttemptContext{
      slot.lead_options, context_.env, context_.identity, context_.run, context_.events,
      context_.loop, context_.out, context_.err, context_.signal_fd, slot.command,
      context_.controller, is_first_main(slot) ? context_.notifier : nullptr,
      context_.child_not_to_kill, context_.ends_before_limit, [](const AttemptEnd&) {}});
  slot.runner = std::make_unique<AttemptRunner>(
      *slot.context,
      ComponentContext{.options = slot.options,
                       .connections = *connections_,
                       .addresses = addresses_,
                       .held_port = slot.address ? slot.address->port : 0,
                       .is_first_main = is_first_main(slot),
                       .component_addresses = [this] { return component_addresses(); }});
  slot.runner->begin();
}

void ComponentsRunner::tick() {
  const auto now = Clock::now();
  connections_->tick(now);
  const bool is_superseded = later_attempt_watch_.is_superseded();
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    auto& slot = slots_[index];
    if (!slot.runner) continue;
    if (slot.is_over) {
      slot.runner->tick_step();
      continue;
    }
    if (is_superseded) slot.runner->end_superseded(now);
    slot.runner->tick_or_postpone();
    follow_component(index, now);
  }
  is_superseded_ = is_superseded_ || is_superseded;
  if (!awaits_signals(now)) carry_out(course_.take_orders());
  write_components_file();
}

bool ComponentsRunner::awaits_signals(Clock::time_point now) {
  const auto decider = course_.decider();
  if (!decider || slots_[*decider].runner->attempt().end().reason != EndReason::kSignalled)
    return false;
  if (!signalled_at_) signalled_at_ = now;
  return now < *signalled_at_ + kSignalSpread;
}

void ComponentsRunner::follow_component(std::size_t index, Clock::time_point now) {
  auto& slot = slots_[index];
  const auto& attempt = slot.runner->attempt();
  follow_join(index, now);
  if (slot.probe) follow_readiness(index, now);
  // If the programs were told that the time limit or a preemption is near, other main components
  // may still be saving their checkpoints. Nothing is decided yet in this case: course_.on_over()
  // decides after this component has ended.
  if (!attempt.goes_on() && !attempt.is_over() && !attempt.is_warned())
    course_.on_failing(index, attempt.end());
  if (!attempt.is_over()) return;
  if (!slot.ended_at) slot.ended_at = now;
  // The old step of a service that ended with 0 still holds the resources until srun has ended. The
  // service starts again after that, or after kSrunEndLimit.
  const bool may_restart = course_.starts_again_after(index, attempt.end());
  const bool srun_still_runs = attempt.end().code == 0 && !attempt.step_is_over();
  if (may_restart && srun_still_runs && now < *slot.ended_at + kSrunEndLimit) {
    slot.runner->tick_step();
    return;
  }
  on_over(index);
}

void ComponentsRunner::follow_join(std::size_t index, Clock::time_point now) {
  auto& slot = slots_[index];
  if (slot.has_joined) return;
  auto address = slot.runner->attempt().address();
  if (!address) return;
  address->name = slot.options.name;
  slot.address = std::move(*address);
  slot.has_joined = true;
  slot.joined_at = now;
  is_file_outdated_ = true;
  course_.on_joined(index);
  if (slot.options.ready.kind == ReadyCheck::Kind::kJoined) return announce_ready(index, now);
  slot.probe = std::make_unique<ReadyProbe>(
      context_.loop, Endpoint{slot.address->addr, static_cast<std::uint16_t>(slot.address->port)},
      slot.options.ready);
}

void ComponentsRunner::follow_readiness(std::size_t index, Clock::time_point now) {
  auto& slot = slots_[index];
  auto& attempt = slot.runner->attempt();
  if (!attempt.goes_on()) return slot.probe.reset();
  slot.probe->tick(now);
  const auto limit = slot.options.ready.timeout.value_or(kReadyLimit);
  if (slot.probe->is_ready()) {
    slot.probe.reset();
    announce_ready(index, now);
  } else if (now >= slot.joined_at + limit) {  // the time for copying data does not count
    attempt.on_not_ready(
        fmt::format("it was not ready within {} s: {}", limit.count(), slot.probe->problem()), now);
    slot.probe.reset();
  }
}

void ComponentsRunner::announce_ready(std::size_t index, Clock::time_point now) {
  const auto& slot = slots_[index];
  const auto time = std::chrono::duration_cast<milliseconds>(now - slot.began);
  course_.on_ready(index);
  is_file_outdated_ = true;
  record(
      events::ComponentReady{
          .addr =
              Endpoint{slot.address->addr, static_cast<std::uint16_t>(slot.address->port)}.text(),
          .seconds = static_cast<double>(time.count()) / 1000.0},
      slot.options.name);
}

void ComponentsRunner::on_over(std::size_t index) {
  auto& slot = slots_[index];
  slot.is_over = true;
  slot.probe.reset();
  slot.runner->write_last_samples();
  drop_peers(index);
  const auto end = slot.runner->attempt().end();
  course_.on_over(index, end);
  is_file_outdated_ = true;
  if (course_.state(index) != ComponentState::kRestarting) return;
  const int left = slot.options.retries - course_.restarts(index);
  record(events::ComponentRestart{.code = end.code, .left = left}, slot.options.name);
  context_.err.push(fmt::format("dlrun: component {} starts again; {} restart{} left\n",
                                slot.options.name, left, left == 1 ? "" : "s"));
}

ComponentsRunner::Slot* ComponentsRunner::slot_of(PeerId peer) {
  const auto found = slot_of_peer_.find(peer);
  if (found == slot_of_peer_.end()) return nullptr;
  auto& slot = slots_[found->second];
  return slot.runner && !slot.is_over ? &slot : nullptr;
}

void ComponentsRunner::drop_peers(std::size_t index) {
  std::vector<PeerId> peers;  // a copy, because close() may change the map
  for (const auto& [peer, slot] : slot_of_peer_) {
    if (slot == index) peers.push_back(peer);
  }
  for (const auto peer : peers) {
    slot_of_peer_.erase(peer);
    connections_->close(peer);
  }
}

bool ComponentsRunner::on_peer(PeerId peer, const RankIdentity& claimed) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.options.name == claimed.component;
  });
  if (found == slots_.end() || !found->runner || found->is_over ||
      !found->runner->on_peer(peer, claimed))
    return false;
  slot_of_peer_[peer] = static_cast<std::size_t>(found - slots_.begin());
  return true;
}

void ComponentsRunner::on_message(PeerId peer, std::string_view payload) {
  if (auto* const slot = slot_of(peer)) slot->runner->on_message(peer, payload);
}

void ComponentsRunner::on_lost(PeerId peer, std::string_view why) {
  auto* const slot = slot_of(peer);
  slot_of_peer_.erase(peer);
  if (slot != nullptr) slot->runner->on_lost(peer, why);
}

void ComponentsRunner::on_too_few_descriptors(int error) {
  for (auto& slot : slots_) {
    if (slot.runner && !slot.is_over) slot.runner->on_too_few_descriptors(error);
  }
}

std::vector<ComponentAddress> ComponentsRunner::component_addresses() const {
  std::vector<ComponentAddress> addresses;
  for (const auto& slot : slots_) {
    auto address = slot.runner ? slot.runner->attempt().address() : std::nullopt;
    if (!address) address = slot.address;  // a component that starts again keeps its address
    if (!address) continue;
    address->name = slot.options.name;
    addresses.push_back(std::move(*address));
  }
  return addresses;
}

Json ComponentsRunner::component_json(std::size_t index) const {
  const auto& slot = slots_[index];
  const auto& end = course_.end(index);
  const auto state = course_.state(index);
  const bool has_ended = state == ComponentState::kStopped || state == ComponentState::kEnded ||
                         state == ComponentState::kFailed;
  Json hosts = Json::array();
  Json addr = nullptr;
  if (slot.address) {
    hosts = slot.address->hosts;
    addr = Endpoint{slot.address->addr, static_cast<std::uint16_t>(slot.address->port)}.text();
  }
  return {{"name", slot.options.name},
          {"role", word(slot.options.role)},
          {"state", word(state)},
          {"ranks", slot.options.rank_count},
          {"restarts", course_.restarts(index)},
          {"addr", addr},
          {"hosts", hosts},
          {"code", has_ended && end ? Json(end->code) : Json(nullptr)}};
}

void ComponentsRunner::write_components_file() {
  if (auto failure = components_file_.take_failure()) {
    context_.err.push(fmt::format("dlrun: {}; programs cannot read it\n", failure->message));
    record(events::Warning{.message = failure->message});
  }
  if (!std::exchange(is_file_outdated_, false) || is_superseded_) return;
  Json components = Json::array();
  for (std::size_t index = 0; index < slots_.size(); ++index)
    components.push_back(component_json(index));
  components_file_.put(text_of({{"time", utc_timestamp(std::chrono::system_clock::now())},
                                {"attempt", context_.run.attempt},
                                {"components", std::move(components)}}) +
                       "\n");
}

milliseconds ComponentsRunner::next_wait() const {
  auto wait = kComponentsTick;
  for (const auto& slot : slots_) {
    if (slot.runner && !slot.is_over) wait = std::min(wait, slot.runner->next_wait());
  }
  const auto until = [&](Clock::time_point when) {
    wait = std::clamp(std::chrono::ceil<milliseconds>(when - Clock::now()), milliseconds(0), wait);
  };
  if (const auto next = connections_->next_deadline()) until(*next);
  if (signalled_at_ && Clock::now() < *signalled_at_ + kSignalSpread)
    until(*signalled_at_ + kSignalSpread);
  return wait;
}

Result<AttemptEnd> run_components(const AttemptContext& context) {
  return ComponentsRunner(context).run();
}

}  // namespace dlrun::agent
