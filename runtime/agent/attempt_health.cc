// The health of an attempt: results of the checks before the programs start, idle GPUs, suspended
// processes, hangs, nodes that fall silent, and points of a sweep that stop early.

#include <signal.h>

#include <algorithm>
#include <set>

#include "common/hostlist.h"
#include "common/text.h"
#include "runtime/agent/attempt.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/intervals.h"

namespace dlrun::agent {
namespace {

/// Largest age of a report that a program is suspended. An older report does not count, because the
/// program may run again.
constexpr std::chrono::milliseconds kSuspendedReportAge{3000};

}  // namespace

void Attempt::judge_fitness(const NodeFitness& fitness, Clock::time_point now) {
  const int nodes = members_.by_rank.begin()->second.hello.world.nnodes;
  const auto verdict = fitness.verdict(nodes, now);
  const auto first =
      fitness.first_complaint();  // a copy, because the end of the phase deletes `fitness`
  if (verdict == NodeFitness::Verdict::kEverywhere) {
    end_.bad_nodes.clear();
    end_for(EndReason::kPreflightFailed, kExitUnfit,
            fmt::format("all {} nodes fail the same check: {}; the cause is the spec or the site, "
                        "not a node (health.preflight)",
                        nodes, printable(first.words)),
            now);
  } else if (verdict == NodeFitness::Verdict::kNodes) {
    fail_rank(
        first.rank,
        {kExitUnfit, 0, fmt::format("{} is not fit for the job: {}", first.host, first.words)},
        true, now);
  }
}

void Attempt::add_bad_node(const std::string& host) {
  auto& bad = end_.bad_nodes;
  if (std::find(bad.begin(), bad.end(), host) == bad.end()) bad.push_back(host);
}

void Attempt::on_check_opened_device(int rank) {
  if (auto* const running = in<Running>()) running->ranks_with_open_device.insert(rank);
}

void Attempt::on_checked(int rank, Clock::time_point now) {
  auto* const running = in<Running>();
  if (running == nullptr || members_.find(rank) == nullptr) return;
  if (++running->checked_count != members_.world_size) return;
  start_watches(*running, now);
  outlet_.record(events::CollectivesChecked{.ranks = members_.world_size,
                                            .seconds = seconds_since_start(now)});
}

void Attempt::on_check_failed(int rank, std::string_view words, bool is_own,
                              Clock::time_point now) {
  auto* const running = in<Running>();
  const auto* const member = members_.find(rank);
  if (running == nullptr || member == nullptr) return;
  if (is_own) {
    const auto& hello = member->hello;
    add_bad_node(hello.host);
    running->fitness.add_result(rank, hello.host, hello.world.local_size, words, now);
    return judge_fitness(running->fitness, now);
  }
  int first = -1;
  for (const auto& [number, other] : members_.by_rank) {
    if (running->ranks_with_open_device.contains(number)) continue;
    if (first < 0) first = number;
    add_bad_node(other.hello.host);
  }
  if (first >= 0) {
    return fail_rank(
        first,
        {kExitUnfit, 0,
         fmt::format(
             "{} is not fit for the job: rank {} did not reach the check of collectives ({})",
             members_.host_of(first), first, words)},
        true, now);
  }
  end_for(EndReason::kPreflightFailed, kExitUnfit,
          fmt::format(
              "collectives do not work among the ranks, although all of them joined the check: {} "
              "(health.preflight)",
              printable(words)),
          now);
}

void Attempt::on_idle_gpus(const std::string& sentence, bool ends, Clock::time_point now) {
  if (!is_in<Running>()) return;
  if (ends)
    return end_for(EndReason::kIdleGpus, kExitIdleGpus, sentence + "; the run is ended", now);
  outlet_.say(sentence);
  outlet_.record(events::Warning{.message = sentence});
}

void Attempt::on_stop_early(const std::string& sentence, Clock::time_point now) {
  if (is_in<Running>()) end_for(EndReason::kStoppedEarly, 0, sentence, now);
}

void Attempt::on_heard(int rank, Clock::time_point now) {
  if (auto* const member = members_.find(rank)) member->heard_at = now;
}

void Attempt::on_output(Clock::time_point now) {
  if (auto* const running = in<Running>()) running->hang.on_output(now);
}

void Attempt::on_lead_suspended(Clock::duration time, Clock::time_point now) {
  last_lead_suspension_ = {time, now};
  if (auto* const running = in<Running>()) running->hang.on_lead_suspended(time);
  for (auto& [rank, member] : members_.by_rank) member.heard_at += time;
}

void Attempt::on_program_suspended(int rank, std::chrono::seconds suspended,
                                   Clock::time_point now) {
  auto* const running = in<Running>();
  const auto* const member = members_.find(rank);
  if (running == nullptr || member == nullptr || member->end) return;
  running->suspended = {rank, suspended, now};
  if (suspended >= running->hang.suspended_limit())
    end_for_suspended_program(running->suspended, now);
}

void Attempt::end_for_suspended_program(const phase::SuspendedProgram& suspended,
                                        Clock::time_point now) {
  const FailedRank failed{
      suspended.rank,
      members_.host_of(suspended.rank),
      members_.by_rank.at(suspended.rank).hello.pid,
      {kExitHung, 0,
       fmt::format("its process has been suspended for {} s", suspended.time.count())}};
  end_.first_failed = failed;
  record_failure(failed);
  end_for(EndReason::kHang, kExitHung, sentence_on_first_failure(), now);
}

/// If a check of collectives has failed, ends the attempt as soon as it is decided whether the
/// nodes, or the spec and the site, are at fault (NodeFitness). Also ends the attempt if it hangs,
/// if the time limit is near, or if the time of its rehearsal is over.
void Attempt::look_at_running(Clock::time_point now) {
  if (const auto* running = in<Running>(); running && running->fitness.has_complaint())
    judge_fitness(running->fitness, now);
  auto* running = in<Running>();
  if (running == nullptr) return;
  if (auto sentence = running->hang.hang_message(now)) {
    // A suspended process explains the hang. Its agent reports it every second.
    const auto& suspended = running->suspended;
    const bool is_suspended = suspended.rank >= 0 && now < suspended.heard_at + kSuspendedReportAge;
    is_suspended ? end_for_suspended_program(suspended, now)
                 : end_for_hang(std::move(*sentence), now);
  } else {
    running->hang_since.reset();
    running->hang_looked_at.reset();
  }
  running = in<Running>();
  if (running != nullptr && running->must_end_by && now >= *running->must_end_by)
    end_for(EndReason::kTimeLimit, 128 + SIGTERM, "the time limit is near", now);
  running = in<Running>();
  if (running != nullptr && running->rehearsal_ends_at && now >= *running->rehearsal_ends_at)
    end_for(EndReason::kRehearsed, 0,
            fmt::format("the rehearsal is over: the ranks ran for {} s without a failure",
                        options_.rehearsal->count()),
            now);
}

/// Ends the attempt because of a hang, but first waits for heartbeats that are late. If some agents
/// are silent while others are heard, reports the silent rank or node as the reason.
void Attempt::end_for_hang(std::string sentence, Clock::time_point now) {
  auto silence = find_silence(members_, now);
  auto& running = *in<Running>();
  if (!running.hang_since) running.hang_since = now;
  running.hang_looked_at = now;
  if (silence.is_any_late && now < *running.hang_since + (kSilentAfter - kBeatLateAfter)) return;
  if (silence.ranks.empty()) return end_for(EndReason::kHang, kExitHung, std::move(sentence), now);
  const auto silent_s =
      std::chrono::duration_cast<std::chrono::seconds>(now - silence.since).count();
  const std::set<std::string> silent_nodes(silence.nodes.begin(), silence.nodes.end());
  const auto is_on_silent_node = [&](int rank) {
    return silent_nodes.contains(members_.host_of(rank));
  };
  int first = silence.ranks.front();
  for (const int rank : silence.ranks) {
    if (!is_on_silent_node(rank)) continue;
    if (members_.lost_ranks.empty()) first = rank;
    members_.lost_ranks.insert(rank);
  }
  if (silence.nodes.empty()) {
    sentence += fmt::format("; no message from rank {} on {} for {} s", first,
                            members_.host_of(first), silent_s);
  }
  if (!silence.nodes.empty()) {
    sentence +=
        fmt::format("; no message from {} for {} s; {} as lost", compress_hostlist(silence.nodes),
                    silent_s, silence.nodes.size() == 1 ? "it counts" : "they count");
  }
  const auto& hello = members_.by_rank.at(first).hello;
  const auto* why = silence.nodes.empty() ? "its agent is silent" : "its node is silent";
  end_.first_failed = {first, hello.host, hello.pid, {kExitHung, 0, why}};
  record_failure(*end_.first_failed);
  end_.bad_nodes = std::move(silence.nodes);
  end_for(EndReason::kHang, kExitHung, std::move(sentence), now);
}

}  // namespace dlrun::agent
