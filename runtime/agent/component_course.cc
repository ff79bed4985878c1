#include "runtime/agent/component_course.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/subprocess.h"

namespace dlrun::agent {
namespace {

/// Returns true if a component that ended for this reason may start again. The other reasons would
/// also end its next start, or they end the whole job.
bool allows_restart(EndReason reason) {
  switch (reason) {
    case EndReason::kOk:
    case EndReason::kRankFailed:
    case EndReason::kLaunchFailed:
    case EndReason::kLauncherLost:
    case EndReason::kJoinTimeout:
    case EndReason::kHang:
    case EndReason::kNotReady:
      return true;
    default:
      return false;
  }
}

/// Adds the texts of `more` that `all` lacks.
void add_missing(std::vector<std::string>& all, const std::vector<std::string>& more) {
  for (const auto& text : more) {
    if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
  }
}

/// Merges bad_nodes and had_grace of one component's end into `all`, the end of the attempt. If the
/// attempt has failed, also merges the facts about suspect nodes. Components may share nodes.
void merge_end(AttemptEnd& all, const AttemptEnd& one) {
  add_missing(all.bad_nodes, one.bad_nodes);
  all.had_grace = all.had_grace || one.had_grace;
  if (all.code == 0) return;
  add_missing(all.suspects, one.suspects);
  all.heard_hosts.insert(one.heard_hosts.begin(), one.heard_hosts.end());
  all.is_whole_node_silent = all.is_whole_node_silent || one.is_whole_node_silent;
}

}  // namespace

ComponentCourse::ComponentCourse(const std::vector<ComponentOptions>& components) {
  for (const auto& options : components) components_.push_back({.options = options});
}

void ComponentCourse::on_joined(std::size_t at) {
  auto& one = components_[at];
  if (one.state != ComponentState::kStarting) return;
  one.state = one.options.ready.kind == ReadyCheck::Kind::kJoined ? ComponentState::kReady
                                                                  : ComponentState::kJoined;
}

void ComponentCourse::on_ready(std::size_t at) {
  if (components_[at].state == ComponentState::kJoined)
    components_[at].state = ComponentState::kReady;
}

void ComponentCourse::on_failing(std::size_t at, const AttemptEnd& end) {
  const auto& one = components_[at];
  if (decider_ || mains_are_done() || one.is_stop_ordered || end.code == 0) return;
  if (may_restart(one, end)) return;  // on_over() decides, once the cause is known
  decider_ = at;
}

void ComponentCourse::on_over(std::size_t at, const AttemptEnd& end) {
  auto& one = components_[at];
  one.end = end;
  if (one.is_stop_ordered || end.reason == EndReason::kStopped) {
    one.state = ComponentState::kStopped;
    return;
  }
  const bool is_main = one.options.role == ComponentRole::kMain;
  // A main component that ends with 0 is done. But if it is stopped early (sweep.stop_early), the
  // attempt ends with it.
  if (is_main && end.code == 0 && end.reason != EndReason::kStoppedEarly) {
    one.state = ComponentState::kEnded;
    return;
  }
  if (starts_again_after(at, end)) {
    one.state = ComponentState::kRestarting;
    ++one.restarts;
    return;
  }
  if (signal_ && !decider_ && may_restart(one, end)) return count_signal_as_end(at);
  one.state = is_main && end.code == 0 ? ComponentState::kEnded : ComponentState::kFailed;
  if (!decider_ && !mains_are_done()) decider_ = at;
}

void ComponentCourse::on_signal(int signal) {
  if (!signal_) signal_ = signal;
  for (std::size_t at = 0; at < components_.size(); ++at) {
    if (!decider_ && components_[at].state == ComponentState::kRestarting) count_signal_as_end(at);
  }
}

void ComponentCourse::count_signal_as_end(std::size_t at) {
  auto& one = components_[at];
  if (!one.end) one.end.emplace();
  auto& end = *one.end;
  end.reason = EndReason::kSignalled;
  end.code = 128 + *signal_;
  end.is_cancelled = true;
  end.cause = Cause::kNone;
  end.message = fmt::format("ended by {}", signal_name(*signal_));
  one.state = ComponentState::kFailed;
  decider_ = at;
}

bool ComponentCourse::may_start(const Component& one) const {
  if (one.state == ComponentState::kRestarting) return true;
  return one.state == ComponentState::kWaiting &&
         std::all_of(one.options.after.begin(), one.options.after.end(), [&](const auto& name) {
           return std::any_of(components_.begin(), components_.end(), [&](const Component& other) {
             return other.options.name == name && (other.state == ComponentState::kReady ||
                                                   other.state == ComponentState::kEnded);
           });
         });
}

bool ComponentCourse::may_restart(const Component& one, const AttemptEnd& end) const {
  if (one.restarts >= one.options.retries || !allows_restart(end.reason) || end.is_cancelled ||
      end.is_slurms_doing || !end.bad_nodes.empty() || mains_are_done())
    return false;
  return end.cause == Cause::kNone || end.cause == Cause::kFailure || end.cause == Cause::kOom ||
         end.cause == Cause::kHang;
}

bool ComponentCourse::mains_are_done() const {
  return std::all_of(components_.begin(), components_.end(), [](const Component& one) {
    return one.options.role != ComponentRole::kMain || one.state == ComponentState::kEnded;
  });
}

bool ComponentCourse::mains_still_save() const {
  if (!decider_) return false;
  const auto& decider = components_[*decider_];
  const bool is_after_warning = decider.options.role == ComponentRole::kMain && decider.end &&
                                decider.end->was_warned && !decider.end->is_cancelled;
  return is_after_warning &&
         std::any_of(components_.begin(), components_.end(), [&](const Component& one) {
           return one.options.role == ComponentRole::kMain && is_running(one);
         });
}

std::optional<std::string> ComponentCourse::reason_to_stop() const {
  if (mains_still_save()) return std::nullopt;
  if (decider_) {
    const auto& decider = components_[*decider_];
    const bool is_early = decider.state == ComponentState::kEnded;
    // A signal, or the nearness of the time limit or of a preemption, is no failure.
    const bool is_signalled = decider.end && decider.end->reason == EndReason::kSignalled;
    const bool was_warned = decider.end && decider.end->was_warned;
    const auto* const what = is_early       ? "has ended early"
                             : is_signalled ? "has ended after a signal"
                             : was_warned   ? "has ended after a warning"
                                            : "has failed";
    return fmt::format("component '{}' {}; dlrun ends this one", decider.options.name, what);
  }
  if (mains_are_done()) return "all main components have ended; dlrun ends this one";
  return std::nullopt;
}

std::vector<ComponentCourse::Order> ComponentCourse::take_orders() {
  std::vector<Order> orders;
  const auto why = reason_to_stop();
  for (std::size_t at = 0; at < components_.size(); ++at) {
    auto& one = components_[at];
    if (!why) {
      if (decider_ || !may_start(one)) continue;
      one.state = ComponentState::kStarting;
      orders.push_back({.kind = Order::Kind::kStart, .at = at});
    } else if (one.state == ComponentState::kWaiting || one.state == ComponentState::kRestarting) {
      one.state = ComponentState::kStopped;
    } else if (is_running(one) && at != decider_ && !one.is_stop_ordered) {
      one.is_stop_ordered = true;
      orders.push_back({.kind = Order::Kind::kStop, .at = at, .why = *why});
    }
  }
  return orders;
}

bool ComponentCourse::is_over() const {
  const bool any_left =
      std::any_of(components_.begin(), components_.end(), [&](const Component& one) {
        return is_running(one) || one.state == ComponentState::kWaiting ||
               one.state == ComponentState::kRestarting;
      });
  return !any_left;
}

const ComponentCourse::Component& ComponentCourse::first_main() const {
  return *std::find_if(components_.begin(), components_.end(), [](const Component& one) {
    return one.options.role == ComponentRole::kMain;
  });
}

AttemptEnd ComponentCourse::attempt_end() const {
  // The attempt's end is that of the decider, or of the first main component if there is no
  // decider. The first exception: a signal to the job may end a service that was about to start
  // again. This service is then the decider, but does not know Slurm's cause. In this case the
  // attempt's end is that of the first main component that the signal ended.
  const auto is_signalled = [](const Component& one) {
    return one.end && one.end->reason == EndReason::kSignalled;
  };
  const auto& first = first_main();
  const auto signalled =
      std::find_if(components_.begin(), components_.end(), [&](const Component& one) {
        return one.options.role == ComponentRole::kMain && is_signalled(one);
      });
  const auto signalled_index = static_cast<std::size_t>(signalled - components_.begin());
  // If the decider is the first main component that the signal ended, but not the first of all main
  // components, the message has the decider's name: the signal may have reached only this
  // component.
  const bool is_signal_to_job = decider_ && is_signalled(components_[*decider_]) &&
                                signalled != components_.end() &&
                                (signalled_index != *decider_ || &*signalled == &first);
  std::size_t reported_index = static_cast<std::size_t>(&first - components_.data());
  if (decider_) reported_index = is_signal_to_job ? signalled_index : *decider_;
  int main_count = 0;
  for (std::size_t at = 0; at < components_.size(); ++at) {
    const auto& one = components_[at];
    if (one.options.role != ComponentRole::kMain) continue;
    ++main_count;
    // The second exception: if a main component ended with 0 only because a preemption was near,
    // the attempt's end is that of this component.
    if (!decider_ && one.end && one.end->cause != Cause::kNone) reported_index = at;
  }
  const auto& reported = components_[reported_index];
  auto end = reported.end.value_or(AttemptEnd{});
  const bool is_service = reported.options.role == ComponentRole::kService;
  if (decider_ && is_service && end.code == 0) {
    end.code = 1;
    end.cause = Cause::kFailure;
    end.message += ", although a service must run until the main components have ended";
  }
  if (!is_signal_to_job)
    end.message = fmt::format("component {}: {}", reported.options.name, end.message);
  if (!decider_ && main_count > 1 && end.cause == Cause::kNone)
    end.message = fmt::format("all {} main components ended with 0", main_count);
  end.step = first.end ? first.end->step : std::nullopt;
  end.has_run = first.end && first.end->has_run;
  for (const auto& one : components_) {
    if (one.end) merge_end(end, *one.end);
  }
  // A node is not silent if another component still heard from it.
  end.is_whole_node_silent =
      end.is_whole_node_silent &&
      std::any_of(end.suspects.begin(), end.suspects.end(),
                  [&](const std::string& host) { return !end.heard_hosts.contains(host); });
  // The loss of a node explains failures of components on other nodes.
  if (end.cause == Cause::kFailure && !end.bad_nodes.empty()) end.cause = Cause::kNodeFailure;
  return end;
}

}  // namespace dlrun::agent
