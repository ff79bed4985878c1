#include "runtime/agent/members.h"

#include <algorithm>

#include "runtime/agent/intervals.h"

namespace dlrun::agent {

Member* Members::find(int rank) {
  const auto found = by_rank.find(rank);
  return found == by_rank.end() ? nullptr : &found->second;
}

std::string Members::host_of(int rank) const {
  if (const auto found = by_rank.find(rank);
      found != by_rank.end() && !found->second.hello.host.empty())
    return found->second.hello.host;
  const auto found = task_ends.find(rank);
  return found == task_ends.end() ? std::string() : found->second.host;
}

std::set<int> Members::live_ranks() const {
  std::set<int> ranks;
  for (const auto& [rank, member] : by_rank) {
    if (member.is_connected && !member.end) ranks.insert(rank);
  }
  return ranks;
}

void Members::join(int rank, const to_lead::Hello& hello,
                   std::chrono::steady_clock::time_point now) {
  by_rank[rank] = Member{hello, true, std::nullopt, now};
  ++live_count;
}

void Members::disconnect(Member& member) {
  if (member.is_connected && !member.end) --live_count;
  member.is_connected = false;
}

void Members::set_end(Member& member, RankEnd end) {
  if (member.is_connected && !member.end) --live_count;
  member.end = std::move(end);
  ++ended_count;
}

Silence find_silence(const Members& members, std::chrono::steady_clock::time_point now) {
  // Time of the last message from each node, including messages of ranks that have ended since.
  std::map<std::string, std::chrono::steady_clock::time_point> heard_from;
  for (const auto& [rank, member] : members.by_rank) {
    auto& heard = heard_from[member.hello.host];
    heard = std::max(heard, member.heard_at);
  }
  Silence silence;
  std::set<std::string> hosts;
  bool is_any_heard = false;
  for (const auto& [rank, member] : members.by_rank) {
    if (member.end || !member.is_connected) continue;
    is_any_heard = is_any_heard || now < member.heard_at + kSilentAfter;
    silence.is_any_late = silence.is_any_late || (now >= member.heard_at + kBeatLateAfter &&
                                                  now < member.heard_at + kSilentAfter);
    if (now < member.heard_at + kSilentAfter) continue;
    silence.ranks.push_back(rank);
    silence.since = std::max(silence.since, member.heard_at);
    hosts.insert(member.hello.host);
  }
  if (!is_any_heard && hosts.size() > 1) silence.ranks.clear();
  if (silence.ranks.empty()) return silence;
  for (const auto& host : hosts) {
    if (now >= heard_from[host] + kSilentAfter) silence.nodes.push_back(host);
  }
  return silence;
}

}  // namespace dlrun::agent
