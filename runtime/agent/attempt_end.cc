// The end of an attempt: the messages for the user, the events for the record, and when the attempt
// is over.

#include <signal.h>

#include <algorithm>
#include <utility>

#include "common/hostlist.h"
#include "common/number_ranges.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/attempt.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/slurm_words.h"

namespace dlrun::agent {
namespace {

/// Number of nodes that the message about missing ranks lists at most.
constexpr std::size_t kMaxNodesListed = 16;

events::RankFailed event_of(const FailedRank& failed) {
  return {.rank = failed.rank,
          .host = failed.host,
          .pid = failed.pid,
          .code = failed.end.code,
          .signal = failed.end.signal == 0 ? std::string() : signal_name(failed.end.signal),
          .error = failed.end.error};
}

}  // namespace

events::AttemptEnd recorded_end(const AttemptEnd& end, double seconds) {
  events::AttemptEnd recorded{.code = end.code, .reason = end.reason};
  if (end.cause != Cause::kNone) recorded.cause = end.cause;
  if (end.first_failed) recorded.first_failed = event_of(*end.first_failed);
  if (end.is_whole_node_silent) recorded.suspect_nodes = end.suspects;
  recorded.bad_nodes = end.bad_nodes;
  recorded.seconds = seconds;
  return recorded;
}

double Attempt::seconds_since_start(Clock::time_point now) const {
  return static_cast<double>(
             std::chrono::duration_cast<std::chrono::milliseconds>(now - began_).count()) /
         1000.0;
}

void Attempt::record_failure(const FailedRank& failed) {
  outlet_.record(event_of(failed));
}

void Attempt::on_unmarked_line(std::string_view line) {
  const bool had_failed_save = !container_messages_.container_save_error().empty();
  const bool is_about_container = container_messages_.handle_line(line);
  if (!is_about_container || had_failed_save || container_messages_.container_save_error().empty())
    return;
  outlet_.say(container_messages_.container_save_error());
  outlet_.record(
      events::Warning{.message = std::string(container_messages_.container_save_error())});
}

bool Attempt::report_container_failure() {
  const bool is_to_blame = blame_container(end_, container_messages_.failure());
  if (is_to_blame) outlet_.say(end_.message);
  return is_to_blame;
}

EndFacts Attempt::end_facts() const {
  EndFacts facts{.end = end_,
                 .signs = signs_,
                 .rank_count = members_.world_size,
                 .has_any_rank = !members_.by_rank.empty(),
                 .retries_timeout = options_.retries_timeout,
                 .job_nodes = options_.job_nodes,
                 .container_failure = container_messages_.failure()};
  facts.end.step = progress_.step();
  facts.signs.has_reported_done = progress_.has_reported_done();
  for (const auto& [rank, member] : members_.by_rank)
    facts.not_lost_count_of_host[member.hello.host] += members_.lost_ranks.contains(rank) ? 0 : 1;
  for (const int rank : members_.lost_ranks)
    facts.hosts_of_lost_ranks.insert(members_.host_of(rank));
  return facts;
}

void Attempt::report_missing_ranks(Clock::time_point now) {
  std::vector<int> missing;
  for (int rank = 0; rank < members_.world_size; ++rank) {
    if (!members_.by_rank.contains(rank)) missing.push_back(rank);
  }
  struct Node {
    std::string host;
    int joined = 0;
    int expected = 0;
  };
  std::map<int, Node> nodes;
  int nnodes = 0;
  for (const auto& [rank, member] : members_.by_rank) {
    const auto& world = member.hello.world;
    auto& node = nodes[world.node_rank];
    node.host = member.hello.host;
    node.expected = world.local_size;
    ++node.joined;
    nnodes = world.nnodes;
  }
  const auto job_nodes =
      options_.job_nodes.empty()
          ? std::vector<std::string>()
          : expand_hostlist(options_.job_nodes).value_or(std::vector<std::string>());
  std::vector<std::string> node_texts;
  std::size_t unlisted_count = 0;
  for (const auto& [index, node] : nodes) {
    if (node.joined >= node.expected) continue;
    if (node_texts.size() < kMaxNodesListed) {
      node_texts.push_back(
          fmt::format("{} ({} of its {})", node.host, node.expected - node.joined, node.expected));
    } else {
      ++unlisted_count;
    }
  }
  if (unlisted_count > 0)
    node_texts.push_back(
        fmt::format("{} more node{}", unlisted_count, unlisted_count == 1 ? "" : "s"));
  // If a step uses all nodes of the job, Slurm numbers them in the order of the job's node list.
  // If no rank has joined (nnodes is 0), all nodes of the job are silent.
  const bool uses_all_job_nodes =
      nnodes == 0 || job_nodes.size() == static_cast<std::size_t>(nnodes);
  std::vector<std::string> silent;
  for (std::size_t index = 0; index < job_nodes.size(); ++index) {
    if (uses_all_job_nodes && !nodes.contains(static_cast<int>(index)))
      silent.push_back(job_nodes[index]);
  }
  if (!silent.empty()) node_texts.push_back(fmt::format("{} (all)", compress_hostlist(silent)));
  const double waited = seconds_since_start(now);
  const std::string where =
      node_texts.empty() ? "" : fmt::format("; missing on {}", join(node_texts, ", "));
  end_.message =
      members_.world_size == 0
          ? fmt::format("no rank connected to lead within {} s{}", waited, where)
          : fmt::format("{} of {} ranks did not connect to lead within {} s: {} {}{}",
                        missing.size(), members_.world_size, waited,
                        missing.size() == 1 ? "rank" : "ranks", number_ranges(missing), where);
  outlet_.record(
      events::RanksMissing{.ranks = {missing.begin(), missing.end()}, .seconds = waited});
}

void Attempt::on_too_few_descriptors(std::string message, Clock::time_point now) {
  if (!is_in<Joining>()) return;
  signs_.is_given_up = true;  // a retry would hit the same limit
  end_for(EndReason::kLaunchFailed, kExitLaunchFailed, std::move(message), now);
}

void Attempt::finish_if_done(Clock::time_point now) {
  if (is_in<Joining>()) {
    end_if_step_is_over(now);
  } else if (is_in<Running>()) {
    finish_running_if_done(now);
  } else if (is_in<Ending>()) {
    finish_ending_if_done(now);
  }
}

void Attempt::end_if_step_is_over(Clock::time_point now) {
  if (!step_end_) return;
  if (!members_.by_rank.empty()) return finish_after_early_step_end(now);
  end_.reason = EndReason::kLaunchFailed;
  end_.code = kExitLaunchFailed;
  const auto words = trim(step_end_->words);
  // If the job itself ends, no other attempt can start in it.
  end_.is_cancelled = says_job_is_ending(words);
  const auto detail = words.empty() ? std::string() : fmt::format(": {}", words);
  end_.message =
      step_end_->code == 0
          ? fmt::format(
                "the step ended with 0 before any rank connected to lead; does its command "
                "line end in `dlrun-agent rank -- PROGRAM`?{}",
                detail.empty() ? "" : " srun's messages" + detail)
          : fmt::format("the step could not be launched (exit code {}){}", step_end_->code, detail);
  if (!report_container_failure()) outlet_.say(end_.message);
  finish(now);
}

void Attempt::finish_running_if_done(Clock::time_point now) {
  if (!members_.all_ended()) {
    if (step_end_) finish_after_early_step_end(now);
    return;
  }
  advance_output_copies(now);
  if (outputs_.is_waiting() || !is_in<Running>()) return;
  auto& all_ended_since = in<Running>()->all_ended_since;
  if (!all_ended_since) all_ended_since = now;
  if (!step_end_ && now < *all_ended_since + kStepLag) return;
  if (step_end_ && step_end_->code != 0) {
    outlet_.record(events::Warning{
        .message =
            fmt::format("every rank ended with 0, but the step ended with {}{}", step_end_->code,
                        step_end_->words.empty() ? "" : ": " + step_end_->words)});
  }
  end_.reason = EndReason::kOk;
  end_.code = 0;
  finish(now);
}

void Attempt::finish_after_early_step_end(Clock::time_point now) {
  if (now < step_end_->at + kConnectionsLag) return;
  for (int rank = 0; rank < members_.world_size; ++rank) {
    const auto* const member = members_.find(rank);
    if (member != nullptr && member->end) continue;
    fail_rank(rank,
              {kExitLaunchFailed, 0,
               member == nullptr ? "never connected to lead, and the step is over"
                                 : "has no exit record, and the step is over"},
              true, now);
  }
  if (is_in_doubt()) announce();  // no later report can explain the failure
  finish(now);
}

void Attempt::finish_ending_if_done(Clock::time_point now) {
  // Announces the first failure once no later report can change which failure is to blame: all
  // ranks have ended, and the step has ended or will not report how a lost agent died.
  if (is_in_doubt() && members_.all_ended() && (step_end_ || !waits_for_step_report())) announce();
  const bool lag_is_over = step_end_ && now >= step_end_->at + kConnectionsLag;
  if (step_end_ && !is_in_doubt() && (lag_is_over || !members_.has_live())) return finish(now);
  const auto signalled_at = in<Ending>()->signalled_at;
  if (!signalled_at || now < *signalled_at + kStepGivenUpAfter) return;
  if (is_in_doubt()) announce();
  if (!step_end_) end_.message += "; the step has not ended, but lead no longer waits for it";
  finish(now);
}

void Attempt::finish(Clock::time_point now) {
  if (is_in<Over>()) return;
  std::vector<FailedRank> other_failures;
  if (auto* const ending = in<Ending>()) other_failures = std::move(ending->other_failures);
  phase_ = Over{};
  if (const auto progress = progress_.progress().take()) outlet_.record(*progress);
  if (const auto result = progress_.result().take()) outlet_.record(*result);
  for (const auto& failed : other_failures) record_failure(failed);
  auto judged = judge(end_facts());
  end_ = std::move(judged.end);
  for (const auto& line : judged.lines) outlet_.say(line);
  auto recorded = recorded_end(end_, seconds_since_start(now));
  if (options_.is_component) return outlet_.record(events::ComponentEnd{std::move(recorded)});
  outlet_.record(recorded);
}

}  // namespace dlrun::agent
