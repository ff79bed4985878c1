// The autopsy of a hung attempt: every agent saves the stacks of its processes before the attempt
// is ended.

#include <algorithm>

#include "common/text.h"
#include "runtime/agent/attempt.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kGroupsRecorded = 6;
constexpr std::size_t kHostsNamed = 4;

}  // namespace

/// Asks all agents for the stacks of their processes. The end of the attempt is decided already; it
/// begins once all agents have answered or the time limit has passed.
void Attempt::begin_autopsy(Clock::time_point now) {
  std::set<int> awaited;
  for (const auto& [rank, member] : ranks_) {
    if (member.is_connected && !member.end && !lost_.contains(rank)) awaited.insert(rank);
  }
  if (!options_.has_autopsy || awaited.empty()) return begin_ending(now);
  phase_ = Phase::kAutopsy;
  hang_watch_.off();
  autopsy_until_ = now + AutopsyBoard::kLimit;
  autopsy_.emplace(std::move(awaited));
  outlet_.broadcast(to_rank::Autopsy{});
}

void Attempt::on_autopsy(int rank, std::vector<std::string> frames, Clock::time_point now) {
  if (phase_ != Phase::kAutopsy) return;
  autopsy_->note(rank, std::move(frames));
  look_at_autopsy(now);
}

void Attempt::look_at_autopsy(Clock::time_point now) {
  if (phase_ != Phase::kAutopsy ||
      (!autopsy_->is_complete() && now < autopsy_until_ && !step_is_over_))
    return;
  const auto groups = autopsy_->groups();
  const auto outliers = AutopsyBoard::outliers(groups);
  events::Autopsy recorded{.ranks = size_, .outliers = static_cast<std::int64_t>(outliers.size())};
  for (const auto& group : groups) {
    if (recorded.groups.size() >= kGroupsRecorded) break;
    std::vector<std::string> hosts;
    for (const int rank : group.ranks) {
      const auto host = host_of(rank);
      if (hosts.size() < kHostsNamed && std::find(hosts.begin(), hosts.end(), host) == hosts.end())
        hosts.push_back(host);
    }
    recorded.groups.push_back({.ranks = ranges(group.ranks),
                               .count = static_cast<std::int64_t>(group.ranks.size()),
                               .hosts = join(hosts, ", "),
                               .frames = group.frames});
  }
  outlet_.record(recorded);
  if (!outliers.empty()) {
    end_.message += fmt::format(
        "; {} {} on {} {} at {}, the others at {}", outliers.size() == 1 ? "rank" : "ranks",
        ranges(outliers), recorded.groups.front().hosts, outliers.size() == 1 ? "is" : "are",
        printable(groups.front().frames.front()), printable(groups.back().frames.front()));
    outlet_.say(end_.message);
  }
  begin_ending(now);
}

}  // namespace dlrun::agent
