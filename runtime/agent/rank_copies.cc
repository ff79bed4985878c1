// Data that a rank's agent copies to its node before the programs start, and outputs that it copies
// from the node. Only the agent of each node's lowest rank copies.

#include <algorithm>
#include <chrono>

#include "common/log.h"
#include "common/text.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/rank_runner.h"

namespace dlrun::agent {
namespace {

/// A file that was written within this time before the program's end may be incomplete.
constexpr std::chrono::milliseconds kIncompleteWithin{3000};
/// A copy is killed as hung if it takes longer than the limits of its items and this margin
/// together.
constexpr std::chrono::seconds kCopyMargin{5};

std::chrono::milliseconds unix_time() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace

std::chrono::seconds RankRunner::collect_limit() const {
  std::chrono::seconds time{};
  for (const auto& item : options_.outputs) time += item.limit;
  return time;
}

void RankRunner::start_staging(const std::vector<std::string>& broadcast_copies) {
  std::vector<std::string> arguments{"stage", "--nnodes", std::to_string(world_.nnodes), "--"};
  for (std::size_t i = 0; i < options_.stage.size(); ++i) {
    auto item = options_.stage[i];
    item.broadcast_copy = i < broadcast_copies.size() ? broadcast_copies[i] : "";
    arguments.push_back(item.json());
  }
  if (const auto started = staging_.start(env_, arguments); !started)
    give_up(kExitStaging, started.error().message);
}

void RankRunner::on_staged(CopyReport report) {
  if (!state_.awaits_start()) return;
  if (!report.error.empty()) return give_up(kExitStaging, report.error);
  staging_report_ = std::move(report);
  awaits_locks_ = true;
  hold_staged_data();
}

void RankRunner::hold_staged_data() {
  if (!awaits_locks_ || !state_.awaits_start()) return;
  while (stage_locks_.size() < staging_report_.held.size()) {
    auto held = hold_staged(staging_report_.held[stage_locks_.size()]);
    // Another run checks the staged data, or copies them, at this moment. The next tick tries
    // again.
    if (!held && held.error().code == Errc::kUnavailable) return;
    if (!held) return give_up(kExitStaging, held.error().message);
    stage_locks_.push_back(std::move(*held));
  }
  awaits_locks_ = false;
  log_info("staged", {{"files", staging_report_.file_count}, {"bytes", staging_report_.bytes}});
  if (!lead_.has_connected()) return start_without_lead();
  lead_.send(to_lead::Staged{staging_report_.file_count, staging_report_.bytes});
}

Result<> RankRunner::check_staged_data() const {
  for (const auto& item : options_.stage) {
    DLRUN_TRY_ASSIGN(const auto staged, node_path(item.to, env_));
    std::error_code error;
    if (!std::filesystem::exists(staged.path, error))
      return fail(Errc::kNotFound,
                  "the first rank of the node has staged {}, but this rank does not see {}; if the "
                  "ranks run in containers, mount the node's folder (container.mounts)",
                  printable(item.to), printable(staged.path.string()));
  }
  return {};
}

void RankRunner::schedule_outputs(Clock::time_point now) {
  for (const auto& item : options_.outputs)
    outputs_.due.push_back(item.every ? std::optional(now + *item.every) : std::nullopt);
  outputs_.program_has_started = true;
}

void RankRunner::note_incomplete_outputs(std::chrono::milliseconds since_end) {
  const auto since = unix_time() - since_end - kIncompleteWithin;
  outputs_.incomplete_since = std::min(outputs_.incomplete_since.value_or(since), since);
}

bool RankRunner::may_still_copy_outputs() const {
  return copies_outputs_here() && outputs_.program_has_started && !outputs_.is_over;
}

void RankRunner::start_output_copy(const std::vector<OutputItem>& items, bool is_last,
                                   Clock::time_point now) {
  std::vector<std::string> arguments{"collect", "--run", fields_.run};
  if (world_.nnodes > 1) {
    arguments.emplace_back("--node");
    arguments.push_back(std::to_string(world_.node_rank));
  }
  if (is_last) arguments.emplace_back("--last");
  if (is_last && outputs_.incomplete_since) {
    arguments.emplace_back("--incomplete-since");
    arguments.push_back(std::to_string(outputs_.incomplete_since->count()));
  }
  arguments.emplace_back("--");
  std::chrono::seconds limit = kCopyMargin;
  for (const auto& item : items) {
    arguments.push_back(item.json());
    limit += item.limit;
  }
  outputs_.is_last = is_last;
  outputs_.until = now + limit;
  const auto started = output_copy_.start(env_, arguments);
  if (started) return;
  CopyReport report;
  report.error = started.error().message;
  on_output_copy_end(report);
}

void RankRunner::on_output_copy_end(const CopyReport& report) {
  log_info("copied outputs", {{"files", report.file_count},
                              {"bytes", report.bytes},
                              {"error", report.error},
                              {"last", outputs_.is_last}});
  // A copy that began while the program ran is killed with the program's processes. The last copy
  // follows.
  const bool is_interrupted = !outputs_.is_last && state_.is_ending();
  auto problems = report.problems;
  if (!report.error.empty() && !is_interrupted) problems.push_back("outputs: " + report.error);
  for (const auto& problem : problems) {
    if (outputs_.reported_problems.size() < kMostOutputWarnings &&
        outputs_.reported_problems.insert(problem).second)
      warn(problem);
  }
  if (!outputs_.is_last) return;
  outputs_.is_over = true;
  lead_.send(to_lead::Collected{report.file_count, report.bytes});
}

void RankRunner::tick_copies(Clock::time_point now) {
  hold_staged_data();
  if (!may_still_copy_outputs()) return;
  if (output_copy_.is_running()) {
    if (now >= outputs_.until) output_copy_.kill();
    return;
  }
  if (state_.exit_code()) {
    const bool may_start = outputs_.is_asked || !lead_.is_open() || state_.lead_is_silent();
    if (may_start && state_.processes_are_gone_or_given_up(now))
      start_output_copy(options_.outputs, true, now);
    return;
  }
  if (!state_.is_running() || state_.is_ending()) return;
  std::vector<OutputItem> items;
  for (std::size_t i = 0; i < outputs_.due.size(); ++i) {
    auto& due = outputs_.due[i];
    if (!due || now < *due) continue;
    due = now + *options_.outputs[i].every;
    items.push_back(options_.outputs[i]);
  }
  if (!items.empty()) start_output_copy(items, false, now);
}

void RankRunner::handle(const to_rank::Stage& message) {
  if (stages_here() && state_.awaits_start() && !staging_.is_running() &&
      staging_report_.held.empty())
    start_staging(message.broadcast_copies);
}

void RankRunner::handle(const to_rank::Collect& message) {
  // No copy is left to make: the program has not started, or the agent stopped hearing lead earlier
  // and copied the outputs then.
  if (!may_still_copy_outputs()) return lead_.send(to_lead::Collected{});
  outputs_.is_asked = true;
  if (message.since_end) note_incomplete_outputs(*message.since_end);
}

bool RankRunner::on_copy_reaped(pid_t pid, int status) {
  if (auto report = staging_.on_reaped(pid, status)) {
    on_staged(std::move(*report));
    return true;
  }
  if (const auto report = output_copy_.on_reaped(pid, status)) {
    on_output_copy_end(*report);
    return true;
  }
  return false;
}

}  // namespace dlrun::agent
