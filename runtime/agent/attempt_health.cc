// The health of an attempt: results of the checks before the programs start, idle GPUs, stopped
// processes, hangs, and nodes that fall silent.

#include <algorithm>

#include "common/text.h"
#include "runtime/agent/attempt.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/intervals.h"

namespace dlrun::agent {
void Attempt::judge_fitness(Clock::time_point now) {
  const int nodes = ranks_.begin()->second.hello.world.nnodes;
  const auto verdict = fitness_.verdict(nodes, now);
  const auto& first = fitness_.first();
  if (verdict == Fitness::Verdict::kEverywhere) {
    end_.lost_nodes.clear();
    end_for(EndReason::kNotFit, kExitUnfit,
            fmt::format("none of the {} nodes is fit for the job, all for the same reason: {}; "
                        "that is no node's fault, but the spec's or the site's (health.preflight)",
                        nodes, printable(first.words)),
            now);
  } else if (verdict == Fitness::Verdict::kNodes) {
    fail_rank(
        first.rank,
        {kExitUnfit, 0, fmt::format("{} is not fit for the job: {}", first.host, first.words)},
        true, now);
  }
}

void Attempt::lose_node(const std::string& host) {
  auto& lost = end_.lost_nodes;
  if (std::find(lost.begin(), lost.end(), host) == lost.end()) lost.push_back(host);
}

void Attempt::on_checked(int rank, Clock::time_point now) {
  if (phase_ != Phase::kRunning || !ranks_.contains(rank) || ++checked_ != size_) return;
  outlet_.record(events::Checked{.ranks = size_, .seconds = seconds_since_start(now)});
  hang_watch_.on_start(now);
}

void Attempt::on_check_failed(int rank, std::string_view words, bool is_own,
                              Clock::time_point now) {
  const auto found = ranks_.find(rank);
  if (phase_ != Phase::kRunning || found == ranks_.end()) return;
  if (is_own) {
    // The hellos reported all nodes as fit, which would settle the verdict. Start a new one.
    if (!fitness_.has_complaint()) fitness_ = Fitness();
    lose_node(found->second.hello.host);
    fitness_.note(rank, found->second.hello.host, found->second.hello.world.local_size, words, now);
    return judge_fitness(now);
  }
  int first = -1;
  for (const auto& [number, member] : ranks_) {
    if (arrived_.contains(number)) continue;
    if (first < 0) first = number;
    lose_node(member.hello.host);
  }
  if (first >= 0) {
    return fail_rank(
        first,
        {kExitUnfit, 0,
         fmt::format(
             "{} is not fit for the job: its rank did not come to the check of collectives ({})",
             host_of(first), words)},
        true, now);
  }
  end_for(
      EndReason::kNotFit, kExitUnfit,
      fmt::format(
          "collectives do not work among the ranks, though all of them came: {} (health.preflight)",
          printable(words)),
      now);
}

void Attempt::on_idle_gpus(const std::string& sentence, bool ends, Clock::time_point now) {
  if (phase_ != Phase::kRunning) return;
  if (ends)
    return end_for(EndReason::kIdleGpus, kExitIdleGpus, sentence + "; the run is ended", now);
  outlet_.say(sentence);
  outlet_.record(events::Warning{.message = sentence});
}

void Attempt::on_heard(int rank, Clock::time_point now) {
  if (const auto found = ranks_.find(rank); found != ranks_.end()) found->second.heard = now;
}

void Attempt::on_asleep(Clock::duration time, Clock::time_point now) {
  last_sleep_ = {time, now};
  hang_watch_.on_asleep(time);
  for (auto& [number, rank] : ranks_) rank.heard += time;
}

void Attempt::on_stopped(int rank, std::chrono::seconds stopped, Clock::time_point now) {
  const auto found = ranks_.find(rank);
  if (phase_ != Phase::kRunning || found == ranks_.end() || found->second.end) return;
  stopped_ = {rank, stopped, now};
  if (stopped >= hang_watch_.stopped_limit()) end_for_stopped(now);
}

void Attempt::end_for_stopped(Clock::time_point now) {
  const FailedRank failed{
      stopped_.rank,
      host_of(stopped_.rank),
      ranks_.at(stopped_.rank).hello.pid,
      {kExitHung, 0, fmt::format("its process has been stopped for {} s", stopped_.time.count())}};
  end_.first_failed = failed;
  record_failure(failed);
  end_for(EndReason::kHang, kExitHung, sentence(), now);
}

/// Finds the ranks that have not ended but are silent. Returns none if the ranks of several nodes
/// are all silent, because then lead itself may be cut off from the network.
Attempt::Silence Attempt::find_silence(Clock::time_point now) const {
  // Time of the last message from each node, including messages of ranks that have ended since.
  std::map<std::string, Clock::time_point> nodes;
  for (const auto& [number, rank] : ranks_) {
    auto& heard = nodes[rank.hello.host];
    heard = std::max(heard, rank.heard);
  }
  Silence silence;
  std::set<std::string> hosts;
  bool is_any_heard = false;
  for (const auto& [number, rank] : ranks_) {
    if (rank.end || !rank.is_connected) continue;
    is_any_heard = is_any_heard || now < rank.heard + kSilentAfter;
    silence.is_any_late = silence.is_any_late ||
                          (now >= rank.heard + kBeatLateAfter && now < rank.heard + kSilentAfter);
    if (now < rank.heard + kSilentAfter) continue;
    silence.ranks.push_back(number);
    silence.since = std::max(silence.since, rank.heard);
    hosts.insert(rank.hello.host);
  }
  if (!is_any_heard && hosts.size() > 1) silence.ranks.clear();
  if (silence.ranks.empty()) return silence;
  for (const auto& host : hosts) {
    if (now >= nodes[host] + kSilentAfter) silence.nodes.push_back(host);
  }
  return silence;
}

/// Ends the attempt because of a hang. If some agents are silent while others are heard, names the
/// silent rank or node as the reason.
void Attempt::end_for_hang(std::string sentence, Clock::time_point now) {
  auto silence = find_silence(now);
  if (!hang_since_) hang_since_ = now;
  hang_looked_at_ = now;
  if (silence.is_any_late && now < *hang_since_ + (kSilentAfter - kBeatLateAfter)) return;
  if (silence.ranks.empty()) return end_for(EndReason::kHang, kExitHung, std::move(sentence), now);
  const auto whole_s =
      std::chrono::duration_cast<std::chrono::seconds>(now - silence.since).count();
  const auto is_on_lost_node = [&](int rank) {
    return std::find(silence.nodes.begin(), silence.nodes.end(), host_of(rank)) !=
           silence.nodes.end();
  };
  int first = silence.ranks.front();
  for (const int rank : silence.ranks) {
    if (!is_on_lost_node(rank)) continue;
    if (lost_.empty()) first = rank;
    lost_.insert(rank);
  }
  if (silence.nodes.empty()) {
    sentence +=
        fmt::format("; nothing is heard of rank {} on {} for {} s", first, host_of(first), whole_s);
  }
  for (const auto& host : silence.nodes) {
    sentence +=
        fmt::format("; nothing is heard of {} for {} s, it is taken for lost", host, whole_s);
  }
  const auto& hello = ranks_.at(first).hello;
  const auto* why = silence.nodes.empty() ? "its agent is silent" : "its node is silent";
  end_.first_failed = {first, hello.host, hello.pid, {kExitHung, 0, why}};
  record_failure(*end_.first_failed);
  end_.lost_nodes = std::move(silence.nodes);
  end_for(EndReason::kHang, kExitHung, std::move(sentence), now);
}

}  // namespace dlrun::agent
