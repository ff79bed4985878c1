#include "runtime/agent/signal_relay.h"

namespace dlrun::agent {
namespace {

/// A signal that comes again within this time is a copy or a repetition.
constexpr std::chrono::milliseconds kRepetitionTime{1000};

}  // namespace

bool SignalRelay::note(int signal, bool came_by_guard, Clock::time_point now) {
  (came_by_guard ? came_by_guard_ : came_direct_).insert(signal);
  const auto last = last_.find(signal);
  if (last != last_.end() && now < last->second + kRepetitionTime) return false;
  last_[signal] = now;
  return true;
}

std::vector<int> SignalRelay::take_due(Clock::time_point now) {
  std::vector<int> due;
  while (!waiting_.empty() && waiting_.begin()->first <= now) {
    if (!reached_whole_tree(waiting_.begin()->second)) due.push_back(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
  }
  return due;
}

}  // namespace dlrun::agent
