// The autopsy of a hung attempt: every agent saves the stacks of its processes before the attempt
// is ended.

#include <algorithm>

#include "common/number_ranges.h"
#include "common/text.h"
#include "runtime/agent/attempt.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kGroupsRecorded = 6;
constexpr std::size_t kHostsShown = 4;

}  // namespace

/// Asks all agents for the stacks of their processes. The end of the attempt is decided already.
/// The ranks are told to end once all agents have answered, or after AutopsyBoard::kLimit.
void Attempt::begin_autopsy(Clock::time_point now) {
  auto awaited = members_.live_ranks();
  for (const int rank : members_.lost_ranks) awaited.erase(rank);
  if (!options_.makes_autopsy || awaited.empty()) return begin_ending(now);
  phase_ = Examining{AutopsyBoard(std::move(awaited)), now + AutopsyBoard::kLimit};
  outlet_.broadcast(to_rank::Autopsy{});
}

void Attempt::on_autopsy(int rank, std::vector<std::string> frames, Clock::time_point now) {
  auto* const examining = in<Examining>();
  if (examining == nullptr) return;
  examining->board.add_answer(rank, std::move(frames));
  finish_autopsy_if_done(now);
}

void Attempt::finish_autopsy_if_done(Clock::time_point now) {
  const auto* const examining = in<Examining>();
  if (examining == nullptr) return;
  if (!examining->board.is_complete() && now < examining->until && !step_end_) return;
  const auto groups = examining->board.groups();
  const auto outliers = AutopsyBoard::outliers(groups);
  events::Autopsy recorded{.ranks = members_.world_size,
                           .outliers = static_cast<std::int64_t>(outliers.size())};
  for (const auto& group : groups) {
    if (recorded.groups.size() >= kGroupsRecorded) break;
    std::vector<std::string> hosts;
    for (const int rank : group.ranks) {
      const auto host = members_.host_of(rank);
      if (hosts.size() < kHostsShown && std::find(hosts.begin(), hosts.end(), host) == hosts.end())
        hosts.push_back(host);
    }
    recorded.groups.push_back({.ranks = number_ranges(group.ranks),
                               .count = static_cast<std::int64_t>(group.ranks.size()),
                               .hosts = join(hosts, ", "),
                               .frames = group.frames});
  }
  outlet_.record(recorded);
  if (!outliers.empty()) {
    const bool is_one = outliers.size() == 1;
    end_.message +=
        fmt::format("; {} {} on {} {} at {}, {} at {}", is_one ? "rank" : "ranks",
                    number_ranges(outliers), recorded.groups.front().hosts, is_one ? "is" : "are",
                    printable(groups.front().frames.front()),
                    groups.size() == 2 ? "the others" : "the largest group of the others",
                    printable(groups.back().frames.front()));
    outlet_.say(end_.message);
  }
  begin_ending(now);
}

}  // namespace dlrun::agent
