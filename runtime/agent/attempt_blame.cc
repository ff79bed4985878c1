// Finds the rank that is to blame for the end of an attempt: the first rank that failed, unless a
// later failure explains the first one.

#include <signal.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/attempt.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kLaterFailuresLimit = 64;

/// The likelihood that the end of a rank is the reason for the attempt's end. Higher values are
/// more likely.
enum class Likelihood {
  kConsequence,  ///< the end of another rank caused this one
  kUnclear,      ///< possibly a consequence: a program may exit or abort because a peer is gone
  kCause,
};

Likelihood likelihood(const RankEnd& end) {
  if (end.blamed_rank) return *end.blamed_rank < 0 ? Likelihood::kConsequence : Likelihood::kCause;
  // The loss of a peer never causes these signals. SIGKILL comes, for example, from the
  // out-of-memory killer.
  constexpr std::array kNotCausedByPeers{SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGXCPU};
  const bool is_cause = std::find(kNotCausedByPeers.begin(), kNotCausedByPeers.end(), end.signal) !=
                        kNotCausedByPeers.end();
  return is_cause || !end.error.empty() ? Likelihood::kCause : Likelihood::kUnclear;
}

std::string how_ended(const RankEnd& end) {
  if (!end.error.empty()) return fmt::format(": {}", printable(end.error));
  if (end.signal != 0) return fmt::format(" was killed by {}", signal_name(end.signal));
  return fmt::format(" exited with code {}", end.code);
}

}  // namespace

void Attempt::fail_rank(int rank, RankEnd end, bool is_end_known, Clock::time_point now) {
  auto& member = members_.by_rank[rank];
  if (member.end) return;
  members_.set_end(member, end);
  if (is_in<Over>()) return;
  FailedRank failed{rank, members_.host_of(rank), member.hello.pid, std::move(end)};
  if (const auto blamed = failed.end.blamed_rank.value_or(rank); blamed != rank) {
    if (const auto* other = members_.find(blamed)) {
      failed.rank = blamed;
      failed.host = members_.host_of(blamed);
      failed.pid = other->hello.pid;
    }
  }
  // A rank that fails during the autopsy is not the cause: debuggers can end processes.
  if (auto* const examining = in<Examining>()) return examining->board.drop(rank);
  if (is_ending()) return reconsider(std::move(failed), is_end_known, now);
  end_.reason = EndReason::kRankFailed;
  end_.code = failed.end.code;
  end_.first_failed = failed;
  begin_ending(now);
  announce_now_or_later(failed, is_end_known, now);
}

void Attempt::announce_now_or_later(const FailedRank& failed, bool is_end_known,
                                    Clock::time_point now) {
  if (!is_end_known) return announce_later(now + kStepReportWait);
  const bool is_clear = members_.world_size == 1 || likelihood(failed.end) == Likelihood::kCause;
  is_clear && !lead_was_just_suspended(now) ? announce() : announce_later(now + kCulpritWait);
}

void Attempt::announce_later(Clock::time_point when) {
  if (auto* const ending = in<Ending>()) ending->announce_at = when;
}

bool Attempt::is_in_doubt() const {
  const auto* const ending = in<Ending>();
  return ending != nullptr && ending->announce_at;
}

bool Attempt::waits_for_step_report() const {
  return is_in_doubt() && members_.lost_ranks.contains(end_.first_failed->rank);
}

void Attempt::reconsider(FailedRank failed, bool is_end_known, Clock::time_point now) {
  const auto& end = failed.end;
  const bool ended_by_itself =
      is_end_known && end.ended_by_itself.value_or(end.signal != SIGTERM && end.signal != SIGKILL);
  const bool may_blame_another = is_in_doubt() && !waits_for_step_report();
  // Lead kills no agent this soon after the first failure. An agent that is lost now is therefore
  // no consequence of that failure, but may be its cause, although it is unknown how it ended.
  const auto new_likelihood = !is_end_known     ? Likelihood::kCause
                              : ended_by_itself ? likelihood(end)
                                                : Likelihood::kConsequence;
  const bool explains = may_blame_another && new_likelihood > likelihood(end_.first_failed->end);
  if (explains) {
    std::swap(*end_.first_failed, failed);  // `failed` is now the failure that was blamed until now
    end_.code = end_.first_failed->end.code;
    if (!is_end_known) announce_later(now + kStepReportWait);
    if (is_end_known && new_likelihood == Likelihood::kCause) announce();
  }
  auto& later = in<Ending>()->other_failures;
  if ((explains || ended_by_itself) && later.size() < kLaterFailuresLimit)
    later.push_back(std::move(failed));
}

void Attempt::announce() {
  if (auto* const ending = in<Ending>()) ending->announce_at.reset();
  end_.code = end_.first_failed->end.code;
  end_.message = sentence_on_first_failure();
  if (!report_container_failure()) outlet_.say(end_.message);
  record_failure(*end_.first_failed);
}

void Attempt::forget_failure() {
  if (auto* const ending = in<Ending>()) ending->announce_at.reset();
  end_.first_failed.reset();
}

std::string Attempt::sentence_on_first_failure() const {
  const auto& failed = *end_.first_failed;
  const auto others = members_.world_size - 1;
  return fmt::format("rank {}{}{}{}", failed.rank,
                     failed.host.empty() ? "" : " on " + printable(failed.host),
                     how_ended(failed.end),
                     others <= 0   ? std::string()
                     : others == 1 ? std::string("; dlrun ends the other rank")
                                   : fmt::format("; dlrun ends the other {} ranks", others));
}

void Attempt::on_srun_killed(int signal, Clock::time_point now) {
  // Connections to agents may have broken first, as a consequence of srun's end.
  if (!goes_on() && !waits_for_step_report()) return;
  forget_failure();
  end_for(EndReason::kLauncherLost, 128 + signal,
          fmt::format("srun was killed by {}; dlrun ends all ranks", signal_name(signal)), now);
}

void Attempt::end_for_unheard_lead(int rank, Clock::time_point now) {
  const bool is_first_in_doubt = is_in_doubt() && !waits_for_step_report();
  if (!goes_on() && !is_first_in_doubt) return;
  forget_failure();
  const int code = 128 + SIGTERM;
  if (lead_was_just_suspended(now)) {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(last_lead_suspension_->time).count();
    return end_for(EndReason::kLeadUnheard, code,
                   fmt::format("lead was suspended for {} s; the agents did not hear lead and have "
                               "ended their ranks",
                               seconds),
                   now);
  }
  if (!signs_.is_preemption_near) end_.cause = Cause::kNodeFailure;
  end_for(EndReason::kLeadUnheard, code,
          fmt::format("the agent of rank {} on {} did not hear lead and has ended the rank: the "
                      "network between {} and lead's node was cut",
                      rank, members_.host_of(rank), members_.host_of(rank)),
          now);
}

}  // namespace dlrun::agent
