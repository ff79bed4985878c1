// Data that the agents copy to their nodes before the programs start, and outputs that they copy
// from the nodes after the programs have ended.

#include <utility>

#include "common/run_events.h"
#include "runtime/agent/attempt.h"

namespace dlrun::agent {

void Attempt::on_file_broadcast_end(const std::vector<std::string>& copies) {
  const auto* const joining = in<Joining>();
  if (joining == nullptr) return;
  const auto ranks = joining->staging_ranks;  // a copy, because sending can end the phase
  for (const int rank : ranks) outlet_.send(rank, to_rank::Stage{copies});
}

void Attempt::on_staged(int rank, std::int64_t files, std::int64_t bytes, Clock::time_point now) {
  auto* const joining = in<Joining>();
  if (joining == nullptr || joining->staging_ranks.erase(rank) == 0) return;
  joining->staged_file_count += files;
  joining->staged_bytes += bytes;
  start_if_ready(now);
}

void Attempt::follow_staging(phase::Joining& joining, Clock::time_point now) {
  if (joining.staging_node_count == 0) return;
  if (!joining.staging_ranks.empty()) {
    if (std::exchange(joining.is_staging_recorded, true)) return;
    const auto nodes = static_cast<std::int64_t>(joining.staging_ranks.size());
    outlet_.say(fmt::format("staging: {} node{} data; the programs start afterwards", nodes,
                            nodes == 1 ? " copies" : "s copy"));
    outlet_.record(events::Staging{.nodes = nodes});
    if (options_.broadcasts_files) outlet_.begin_file_broadcast();
    return;
  }
  outlet_.record(events::Staged{.nodes = joining.staging_node_count,
                                .files = joining.staged_file_count,
                                .bytes = joining.staged_bytes,
                                .seconds = seconds_since_start(now)});
}

void Attempt::on_collected(int rank, std::int64_t files, std::int64_t bytes,
                           Clock::time_point now) {
  outputs_.on_collected(rank, files, bytes, now);
  advance_output_copies(now);
  finish_if_done(now);
}

/// Asks the agents of nodes whose programs have ended to copy the outputs. Confirms the exit
/// records once all copies are done: until then no agent may exit, because Slurm ends a step soon
/// after one of its tasks has failed.
void Attempt::advance_output_copies(Clock::time_point now) {
  if (!outputs_.is_used()) return;
  if (outputs_.is_waiting() && is_ending() && !end_.has_run) outputs_.give_up(now);
  const auto* const ending = in<Ending>();
  const auto ends_since =
      ending != nullptr ? std::optional<Clock::time_point>(ending->since) : std::nullopt;
  for (const int rank : outputs_.take_due(members_, ends_since, now)) {
    to_rank::Collect collect;
    if (ends_since)
      collect.since_end = std::chrono::duration_cast<std::chrono::milliseconds>(now - *ends_since);
    outlet_.send(rank, collect);
  }
  if (outputs_.is_waiting()) return;
  if (!std::exchange(are_outputs_recorded_, true) && outputs_.began() != Clock::time_point{}) {
    const std::chrono::duration<double> time = *outputs_.done_at() - outputs_.began();
    outlet_.record(events::OutputsCopied{.nodes = outputs_.node_count(),
                                         .files = outputs_.file_count(),
                                         .bytes = outputs_.bytes(),
                                         .seconds = time.count()});
  }
  for (const int rank : std::exchange(unconfirmed_, {}))
    outlet_.send(rank, to_rank::ExitConfirmed{});
}

}  // namespace dlrun::agent
