// The end of an attempt: which rank or node is to blame, the message for the user, the events for
// the record, and when the attempt is over. attempt.cc has the time before.

#include <signal.h>

#include <algorithm>
#include <utility>

#include "common/hostlist.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/attempt.h"
#include "runtime/agent/exit_codes.h"

namespace dlrun::agent {
namespace {

std::string how(const RankEnd& end) {
  if (!end.error.empty()) return fmt::format(": {}", printable(end.error));
  if (end.signal != 0) return fmt::format(" was killed by {}", signal_name(end.signal));
  return fmt::format(" exited with code {}", end.code);
}

events::RankFailed event_of(const FailedRank& failed) {
  return {.rank = failed.rank,
          .host = failed.host,
          .pid = failed.pid,
          .code = failed.end.code,
          .signal = failed.end.signal == 0 ? std::string() : signal_name(failed.end.signal),
          .error = failed.end.error};
}

}  // namespace

double Attempt::seconds_since_start(Clock::time_point now) const {
  return static_cast<double>(
             std::chrono::duration_cast<std::chrono::milliseconds>(now - began_).count()) /
         1000.0;
}

void Attempt::announce() {
  announce_at_.reset();
  end_.code = end_.first_failed->end.code;
  end_.message = sentence();
  if (!blame_container()) outlet_.say(end_.message);
  record_failure(*end_.first_failed);
}

void Attempt::record_failure(const FailedRank& failed) {
  outlet_.record(event_of(failed));
}

std::string Attempt::sentence() const {
  const auto& failed = *end_.first_failed;
  const auto others = size_ - 1;
  return fmt::format("rank {}{}{}{}", failed.rank,
                     failed.host.empty() ? "" : " on " + printable(failed.host), how(failed.end),
                     others <= 0   ? std::string()
                     : others == 1 ? std::string("; the other rank is ended")
                                   : fmt::format("; the other {} ranks are ended", others));
}

void Attempt::on_foreign_line(std::string_view line) {
  const bool was_saved = container_words_.failed_save().empty();
  if (!container_words_.hear(line) || !was_saved || container_words_.failed_save().empty()) return;
  outlet_.say(container_words_.failed_save());
  outlet_.record(events::Warning{.message = std::string(container_words_.failed_save())});
}

bool Attempt::blame_container() {
  const bool is_container = agent::blame_container(end_, container_words_.failure());
  if (is_container) outlet_.say(end_.message);
  return is_container;
}

EndFacts Attempt::end_facts() const {
  EndFacts facts{.end = end_,
                 .signs = signs_,
                 .ranks = size_,
                 .has_any_rank = !ranks_.empty(),
                 .retries_timeout = options_.retries_timeout,
                 .job_nodes = options_.job_nodes,
                 .container = container_words_.failure()};
  facts.end.step = step_;
  for (const auto& [rank, member] : ranks_)
    facts.ranks_left[member.hello.host] += lost_.contains(rank) ? 0 : 1;
  for (const int rank : lost_) facts.lost_hosts.insert(host_of(rank));
  return facts;
}

void Attempt::name_missing(Clock::time_point now) {
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank) {
    if (!ranks_.contains(rank)) missing.push_back(rank);
  }
  struct Node {
    std::string host;
    int here = 0;
    int expected = 0;
  };
  std::map<int, Node> nodes;
  int nnodes = 0;
  for (const auto& [rank, member] : ranks_) {
    const auto& world = member.hello.world;
    auto& node = nodes[world.node_rank];
    node.host = member.hello.host;
    node.expected = world.local_size;
    ++node.here;
    nnodes = world.nnodes;
  }
  const auto job_nodes =
      options_.job_nodes.empty()
          ? std::vector<std::string>()
          : expand_hostlist(options_.job_nodes).value_or(std::vector<std::string>());
  std::vector<std::string> words;
  for (const auto& [index, node] : nodes) {
    if (node.here < node.expected) {
      words.push_back(
          fmt::format("{} ({} of its {})", node.host, node.expected - node.here, node.expected));
    }
  }
  // If a step uses all nodes of the job, Slurm numbers them in the order of the job's node list.
  std::vector<std::string> silent;
  for (std::size_t index = 0; index < job_nodes.size(); ++index) {
    const bool knows_layout = nnodes == 0 || job_nodes.size() == static_cast<std::size_t>(nnodes);
    if (knows_layout && !nodes.contains(static_cast<int>(index)))
      silent.push_back(job_nodes[index]);
  }
  if (!silent.empty()) words.push_back(fmt::format("{} (all)", compress_hostlist(silent)));
  const double waited = seconds_since_start(now);
  const std::string where = words.empty() ? "" : fmt::format("; missing on {}", join(words, ", "));
  end_.message = size_ == 0
                     ? fmt::format("no rank said hello within {} s{}", waited, where)
                     : fmt::format("{} of {} ranks did not say hello within {} s: {} {}{}",
                                   missing.size(), size_, waited,
                                   missing.size() == 1 ? "rank" : "ranks", ranges(missing), where);
  outlet_.record(events::Missing{.ranks = {missing.begin(), missing.end()}, .seconds = waited});
}

void Attempt::on_full(std::string message, Clock::time_point now) {
  if (phase_ != Phase::kJoining) return;
  signs_.is_given_up = true;  // a retry would hit the same limit
  end_for(EndReason::kLaunchFailed, kExitLaunchFailed, std::move(message), now);
}

void Attempt::finish_if_done(Clock::time_point now) {
  if (phase_ == Phase::kOver || phase_ == Phase::kAutopsy) return;
  const bool all_ended = size_ > 0 && ended_ >= size_;
  if (all_ended && !all_ended_since_) all_ended_since_ = now;
  const bool lag_is_over = step_over_since_ && now >= *step_over_since_ + kConnectionsLag;
  if (phase_ == Phase::kEnding) {
    // No rank is left that could explain the first failure. Only the launcher can still tell how a
    // lost agent died.
    if (announce_at_ && all_ended && (step_is_over_ || !waits_for_launcher())) announce();
    const bool none_connected = std::none_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
      return entry.second.is_connected && !entry.second.end;
    });
    if (step_is_over_ && !announce_at_ && (none_connected || lag_is_over)) return finish(now);
    if (asked_again_at_ && now >= *asked_again_at_ + kLeftBehindAfter) {
      if (announce_at_) announce();
      if (!step_is_over_) end_.message += "; the step does not end and is left behind";
      finish(now);
    }
    return;
  }
  if (phase_ == Phase::kRunning && all_ended) {
    const bool is_late = now >= *all_ended_since_ + kStepLag;
    if (step_is_over_ || is_late) {
      if (step_is_over_ && step_code_ != 0) {
        outlet_.record(events::Warning{
            .message = fmt::format("every rank ended with 0, but the step's launcher with {}{}",
                                   step_code_, step_words_.empty() ? "" : ": " + step_words_)});
      }
      end_.reason = EndReason::kOk;
      end_.code = 0;
      finish(now);
    }
    return;
  }
  if (!step_is_over_) return;
  // The step has ended while ranks are still awaited.
  if (joined_ == 0 && ranks_.empty()) {
    end_.reason = EndReason::kLaunchFailed;
    end_.code = kExitLaunchFailed;
    const auto words = trim(step_words_);
    end_.message = step_code_ == 0 && words.empty()
                       ? "the step ended before any rank said hello; does its command line end in "
                         "`dlrun-agent rank -- PROGRAM`?"
                       : fmt::format("the step could not be launched (exit code {}){}", step_code_,
                                     words.empty() ? "" : fmt::format(": {}", words));
    if (!blame_container()) outlet_.say(end_.message);
    finish(now);
  } else if (lag_is_over) {
    for (int rank = 0; rank < size_; ++rank) {
      const auto found = ranks_.find(rank);
      if (found != ranks_.end() && found->second.end) continue;
      fail_rank(rank,
                {kExitLaunchFailed, 0,
                 found == ranks_.end() ? "never said hello, and the step is over"
                                       : "has no exit record, and the step is over"},
                true, now);
    }
    finish(now);
  }
}

void Attempt::finish(Clock::time_point now) {
  phase_ = Phase::kOver;
  if (held_progress_) outlet_.record(*held_progress_);
  if (std::exchange(is_result_held_, false)) outlet_.record(result_);
  for (const auto& failed : later_failures_) record_failure(failed);
  auto judged = judge(end_facts());
  end_ = std::move(judged.end);
  for (const auto& line : judged.lines) outlet_.say(line);
  events::AttemptEnd recorded{.code = end_.code, .reason = end_.reason};
  if (end_.cause != Cause::kNone) recorded.cause = end_.cause;
  if (end_.first_failed) recorded.first_failed = event_of(*end_.first_failed);
  if (end_.is_whole_node_silent) recorded.silent = end_.suspects;
  recorded.lost_nodes = end_.lost_nodes;
  recorded.seconds = seconds_since_start(now);
  outlet_.record(recorded);
}

}  // namespace dlrun::agent
