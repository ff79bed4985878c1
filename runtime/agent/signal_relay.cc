#include "runtime/agent/signal_relay.h"

namespace dlrun::agent {
namespace {

/// A signal that comes again within this time is a copy or a repetition.
constexpr std::chrono::milliseconds kRepetitionTime{1000};

}  // namespace

bool SignalRelay::record(int signal, bool came_by_guard, Clock::time_point now) {
  (came_by_guard ? guard_signals_ : direct_signals_).insert(signal);
  const auto last = last_arrival_.find(signal);
  if (last != last_arrival_.end() && now < last->second + kRepetitionTime) return false;
  last_arrival_[signal] = now;
  return true;
}

std::vector<int> SignalRelay::take_due(Clock::time_point now) {
  std::vector<int> due;
  while (!queued_.empty() && queued_.begin()->first <= now) {
    if (!reached_whole_tree(queued_.begin()->second)) due.push_back(queued_.begin()->second);
    queued_.erase(queued_.begin());
  }
  return due;
}

}  // namespace dlrun::agent
