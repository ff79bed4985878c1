// An attempt while ranks join and run: hellos, exit records, events of the step, and deadlines.
#include "runtime/agent/attempt.h"

#include <signal.h>

#include <algorithm>

#include "common/hostlist.h"
#include "common/run_events.h"
#include "common/text.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/intervals.h"
#include "runtime/agent/rank_table.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kUnlaunchedLimit = 64;  // nodes
/// Time between two checks of a hang while its verdict waits for late heartbeats.
constexpr milliseconds kHangLookInterval{250};

}  // namespace

Attempt::Attempt(AttemptOptions options, AttemptOutlet& outlet, Clock::time_point now)
    : options_(std::move(options)), outlet_(outlet), began_(now) {
  members_.world_size = options_.rank_count;
}

bool Attempt::may_join(int rank) const {
  return is_in<Joining>() && !members_.by_rank.contains(rank) &&
         (members_.world_size == 0 || rank < members_.world_size);
}

void Attempt::on_hello(int rank, const Hello& hello, Clock::time_point now) {
  // Adds every unfit node, even if an earlier one has already ended the attempt: the next attempt
  // then avoids all of them.
  if (!hello.complaint.empty() && end_.reason != EndReason::kPreflightFailed)
    add_bad_node(hello.host);
  auto* const joining = in<Joining>();
  if (joining == nullptr || members_.by_rank.contains(rank)) return;
  if (members_.world_size == 0) members_.world_size = hello.world.size;
  members_.join(rank, hello, now);
  if (hello.world.rank != rank || hello.world.size != members_.world_size) {
    return fail_rank(rank,
                     {kExitInternal, 0,
                      fmt::format("says that it is rank {} of {}; lead took it for rank {} of {}",
                                  hello.world.rank, hello.world.size, rank, members_.world_size)},
                     true, now);
  }
  joining->fitness.add_result(rank, hello.host, hello.world.local_size, hello.complaint, now);
  if (joining->fitness.has_complaint()) return judge_fitness(joining->fitness, now);
  if (hello.stages) {
    joining->staging_ranks.insert(rank);
    ++joining->staging_node_count;
  }
  if (hello.collect_limit.count() > 0) outputs_.add(rank, hello.collect_limit);
  ++joining->joined_count;
  if (hello.stages && !options_.broadcasts_files) outlet_.send(rank, to_rank::Stage{});
  start_if_ready(now);
}

void Attempt::start_if_ready(Clock::time_point now) {
  if (!all_have_joined()) return;
  auto& joining = *in<Joining>();
  follow_staging(joining, now);
  if (!joining.staging_ranks.empty()) return;
  outlet_.record(events::Joined{.ranks = members_.world_size,
                                .hosts = compress_hostlist(hosts()),
                                .seconds = seconds_since_start(now)});
  auto& running = phase_.emplace<Running>(Running{.hang = HangWatch(options_.hang_after)});
  end_.has_run = true;
  if (!options_.tries_collective) start_watches(running, now);
  send_start();
}

void Attempt::start_watches(phase::Running& running, Clock::time_point now) {
  if (options_.rehearsal) running.rehearsal_ends_at = now + *options_.rehearsal;
  if (!options_.is_service) running.hang.on_start(now);
}

std::vector<std::string> Attempt::hosts() const {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const auto& [number, member] : members_.by_rank) {
    if (seen.insert(member.hello.host).second) names.push_back(member.hello.host);
  }
  return names;
}

std::optional<ComponentAddress> Attempt::address() const {
  if (!end_.has_run) return std::nullopt;
  const auto& first = members_.by_rank.at(0).hello;
  return ComponentAddress{.addr = first.addr, .port = first.port, .hosts = hosts()};
}

void Attempt::send_start() {
  const auto& first = members_.by_rank.at(0).hello;
  const auto components = outlet_.component_addresses();
  for (const auto& [rank, member] : members_.by_rank) {
    outlet_.send(rank, to_rank::Start{.addr = member.hello.addr,
                                      .master_addr = first.addr,
                                      .master_port = first.port,
                                      .marks_stderr = options_.marks_stderr,
                                      .components = components});
  }
}

void Attempt::on_exit(int rank, RankEnd end, Clock::time_point now) {
  if (outputs_.is_waiting()) {
    unconfirmed_.push_back(rank);
  } else {
    outlet_.send(rank, to_rank::ExitConfirmed{});
  }
  auto* const member = members_.find(rank);
  if (member == nullptr || member->end) return;
  if (end.lead_was_unheard) {
    members_.set_end(*member, std::move(end));
    end_for_unheard_lead(rank, now);
  } else if (end.code != 0 || end.signal != 0) {
    if (end.code == 0) end.code = 128 + end.signal;
    fail_rank(rank, std::move(end), true, now);
  } else {
    members_.set_end(*member, std::move(end));
  }
  finish_if_done(now);
}

void Attempt::on_lost(int rank, std::string_view why, Clock::time_point now) {
  auto* const member = members_.find(rank);
  if (member == nullptr) return;
  members_.disconnect(*member);
  if (!member->end) {
    if (const auto found = members_.task_ends.find(rank);
        found != members_.task_ends.end() && found->second.end.code != 0) {
      fail_rank(rank, found->second.end, true, now);
    } else {
      // An agent leaves without an exit record only if it is killed or its node is lost. The
      // step may soon report the cause.
      members_.lost_ranks.insert(rank);
      fail_rank(
          rank,
          {128 + SIGKILL, 0, fmt::format("its agent is lost without an exit record: {}", why)},
          false, now);
    }
  }
  finish_if_done(now);
}

void Attempt::begin_ending(Clock::time_point now, int step_signal) {
  if (is_in<Ending>() || is_in<Over>()) return;
  const auto* const joining = in<Joining>();
  const bool stops_step = joining != nullptr && joining->joined_count == 0 && !step_end_;
  phase_ = Ending{.since = now, .stop_stage = stops_step ? 1 : 0};
  outlet_.broadcast(to_rank::End{step_signal});
  if (stops_step) outlet_.stop_step(false);
}

void Attempt::end_for(EndReason reason, int code, std::string message, Clock::time_point now) {
  end_.reason = reason;
  end_.code = code;
  end_.message = std::move(message);
  outlet_.say(end_.message);
  if (reason == EndReason::kHang && is_in<Running>()) return begin_autopsy(now);
  begin_ending(now);
}

void Attempt::on_task_end(int rank, std::string_view host, int code, int signal,
                          Clock::time_point now) {
  const RankEnd end{signal != 0 ? 128 + signal : code, signal, {}};
  const bool was_lost = members_.lost_ranks.erase(rank) > 0;
  if (was_lost && is_in_doubt() && end_.first_failed->rank == rank && end.code != 0) {
    end_.first_failed->end = end;
    members_.by_rank[rank].end = end;
    return announce();
  }
  const bool is_new = members_.task_ends.emplace(rank, TaskEnd{std::string(host), end}).second;
  if (is_new && is_in<Joining>() && !members_.by_rank.contains(rank) && end.code != 0) {
    fail_rank(rank, end, true, now);
    finish_if_done(now);
  }
}

void Attempt::on_cancel_reason(std::string_view reason) {
  if (signs_.cancel_reason.empty()) signs_.cancel_reason = reason.substr(0, 256);
}

void Attempt::on_node_failure(std::string_view nodes, Clock::time_point now) {
  const auto lost = expand_hostlist(nodes).value_or(std::vector<std::string>());
  end_.bad_nodes.insert(end_.bad_nodes.end(), lost.begin(), lost.end());
  if (!goes_on()) return;
  end_for(EndReason::kNodeFailure, 128 + SIGKILL,
          fmt::format("Slurm has lost {}; dlrun ends all ranks", printable(nodes)), now);
}

void Attempt::on_launch_failure(std::string_view node, std::string_view why,
                                Clock::time_point now) {
  if (is_in<Over>() || signs_.unlaunched.size() >= kUnlaunchedLimit) return;
  signs_.unlaunched.emplace(node.substr(0, 256));
  // srun ends the tasks that it did start. The failures of their ranks are only consequences.
  const bool is_sruns_doing = is_in<Ending>() && end_.reason == EndReason::kRankFailed &&
                              (waits_for_step_report() || end_.first_failed->end.signal == SIGTERM);
  if (is_in<Ending>() && !is_sruns_doing) return;
  forget_failure();
  end_for(EndReason::kLaunchFailed, kExitLaunchFailed,
          fmt::format("the step could not be launched on {}: {}", printable(node),
                      printable(why.substr(0, 1024))),
          now);
}

void Attempt::end_before_limit(std::chrono::milliseconds time_to_save, Clock::time_point now) {
  auto* const running = in<Running>();
  if (running == nullptr || running->must_end_by) return;
  running->must_end_by = now + time_to_save;
  running->hang.stop_watching();
}

void Attempt::on_step_end(int code, std::string_view words, Clock::time_point now) {
  step_end_ = StepEnd{code, std::string(words), now};
  finish_if_done(now);
}

void Attempt::give_up(int code, std::string_view message, Clock::time_point now) {
  if (is_in<Over>()) return;
  signs_.is_given_up = true;
  forget_failure();
  end_for(EndReason::kSignalled, code, std::string(message), now);
}

void Attempt::stop(std::string message, Clock::time_point now) {
  if (goes_on()) end_for(EndReason::kStopped, 0, std::move(message), now);
}

void Attempt::on_not_ready(std::string message, Clock::time_point now) {
  if (goes_on()) end_for(EndReason::kNotReady, kExitNotReady, std::move(message), now);
}

void Attempt::on_warning(int rank, std::string_view message) {
  const auto host = members_.host_of(rank);
  outlet_.say(fmt::format("rank {} on {}: {}", rank, host, printable(message)));
  outlet_.record(events::Warning{.message = std::string(message), .rank = rank, .host = host});
}

void Attempt::on_table_request(int rank, std::int64_t from) {
  auto* const running = in<Running>();
  if (running == nullptr) return;
  auto& pages = running->address_pages;
  if (pages.empty()) {
    std::vector<Endpoint> table;
    for (const auto& [number, member] : members_.by_rank) {
      table.push_back({member.hello.addr, static_cast<std::uint16_t>(member.hello.port)});
    }
    pages = table_pages(table);
  }
  const auto page = static_cast<std::size_t>(from) / kTablePageRanks;
  if (from < 0 || from % kTablePageRanks != 0 || page >= pages.size()) return;
  outlet_.send_text(rank, std::string(pages[page]));
}

/// Asks the step to stop, and later kills it, if it still runs some time after its ranks were told
/// to end and their outputs were copied.
void Attempt::stop_overdue_step(Clock::time_point now) {
  auto* const ending = in<Ending>();
  if (ending == nullptr || step_end_ || outputs_.is_waiting()) return;
  const auto since = std::max(ending->since, outputs_.done_at().value_or(ending->since));
  const bool stops = ending->stop_stage < 1 && now >= since + kStepStoppedAfter;
  const bool kills = ending->stop_stage < 2 && now >= since + kStepKilledAfter;
  if (stops || kills) ending->stop_stage = kills ? 2 : 1;
  if (stops) outlet_.stop_step(false);
  if (kills) outlet_.stop_step(true);
}

void Attempt::tick(Clock::time_point now) {
  if (is_in<Over>()) return;
  record_progress(now);
  if (const auto* ending = in<Ending>();
      ending && ending->announce_at && *ending->announce_at <= now)
    announce();
  // The join timeout no longer applies once all ranks have joined: it does not limit the copying of
  // data to the nodes.
  if (is_in<Joining>() && !all_have_joined() && now >= began_ + options_.join_timeout) {
    report_missing_ranks(now);
    end_.reason = EndReason::kJoinTimeout;
    end_.code = kExitNotJoined;
    outlet_.say(end_.message);
    begin_ending(now);
  }
  if (const auto* joining = in<Joining>(); joining && joining->fitness.has_complaint())
    judge_fitness(joining->fitness, now);
  look_at_running(now);
  finish_autopsy_if_done(now);
  advance_output_copies(now);
  stop_overdue_step(now);
  finish_if_done(now);
}

std::optional<Attempt::Clock::time_point> Attempt::next_deadline() const {
  std::optional<Clock::time_point> next;
  const auto consider = [&](std::optional<Clock::time_point> when, Clock::duration later = {}) {
    if (when && (!next || *when + later < *next)) next = *when + later;
  };
  if (const auto* joining = in<Joining>()) {
    consider(joining->fitness.deadline());
    if (!all_have_joined()) consider(began_ + options_.join_timeout);
  } else if (const auto* running = in<Running>()) {
    if (const auto due = running->hang.next_deadline())
      consider(running->hang_looked_at ? *running->hang_looked_at + kHangLookInterval : *due);
    consider(running->fitness.deadline());
    consider(running->must_end_by);
    consider(running->rehearsal_ends_at);
    consider(running->all_ended_since, kStepLag);
  } else if (const auto* ending = in<Ending>()) {
    consider(ending->announce_at);
    if (!step_end_ && ending->stop_stage < 2 && !outputs_.is_waiting())
      consider(std::max(ending->since, outputs_.done_at().value_or(ending->since)) +
               (ending->stop_stage < 1 ? kStepStoppedAfter : kStepKilledAfter));
    consider(ending->signalled_at, kStepGivenUpAfter);
  }
  if (outputs_.is_waiting() && (members_.ended_count > 0 || is_ending()))
    consider(outputs_.next_look());
  if (step_end_) consider(step_end_->at + kConnectionsLag);
  consider(progress_.progress().next_deadline());
  consider(progress_.result().next_deadline());
  return next;
}

}  // namespace dlrun::agent
