#include "runtime/agent/retry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include <fmt/format.h>

#include "common/cause_words.h"
#include "common/json_lines.h"
#include "common/run_events.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun::agent {
namespace {

bool is_of_container(Cause cause) {
  return cause == Cause::kImage || cause == Cause::kContainer;
}

int clamped_code(std::int64_t recorded) {
  return static_cast<int>(std::clamp<std::int64_t>(recorded, 0, 255));
}

/// Returns true if the program may have caused the end. The other causes come from Slurm, from a
/// node, from the container or from the user.
bool may_come_from_program(Cause cause) {
  return cause == Cause::kFailure || cause == Cause::kOom || cause == Cause::kHang;
}

}  // namespace

Result<std::set<Cause>> parse_causes(std::string_view text) {
  std::set<Cause> causes;
  for (const auto part : split(text, ',')) {
    const auto row = std::find_if(kCauses.begin(), kCauses.end(), [&](const CauseRow& one) {
      return one.is_retry_cause && one.name == part;
    });
    if (row == kCauses.end()) {
      return fail(Errc::kUsage, "--retry-on: '{}' is none of {}", printable(part),
                  fmt::join(kRetryCauses, ", "));
    }
    causes.insert(row->value);
  }
  return causes;
}

void RetryHistory::add_attempt(std::optional<std::int64_t> step, Cause cause,
                               bool no_step_means_no_progress) {
  const bool is_further = step && (!best_step_ || *step > *best_step_);
  if (is_further) {
    best_step_ = step;
    fruitless_count_ = 0;
    return;
  }
  // While no attempt has reported a step, an attempt counts as fruitless only if it certainly made
  // no progress and the program may have caused its end. Any other attempt sets the count back to
  // 0, so that only retry.max limits the restarts.
  if (best_step_ || (no_step_means_no_progress && may_come_from_program(cause))) {
    ++fruitless_count_;
  } else {
    fruitless_count_ = 0;
  }
}

namespace {

/// Builds the history of the attempts from the events of the record.
class HistoryReader {
 public:
  explicit HistoryReader(bool reports_from_first_step)
      : reports_from_first_step_(reports_from_first_step) {}

  void add_line(std::string_view line) {
    if (kind_of_line(line) == events::RankStatistics::kKind) return;
    const auto recorded = event_of_line(line);
    if (!recorded) return;
    const auto begin = [&] { begin_attempt(recorded->attempt.value_or(read_.last.attempt)); };
    // The first main component counts for the run.
    const bool counts_for_run = recorded->component.empty() || recorded->component == first_main_;
    std::visit(
        Overloaded{[&](const events::Claimed&) { begin(); },
                   [&](const events::Components& components) {
                     begin();
                     first_main_ = components.first_main_name();
                   },
                   [&](const events::Started&) { begin(); },
                   [&](const events::Joined&) { has_joined_ = has_joined_ || counts_for_run; },
                   [&](const events::Progress& progress) {
                     const auto step = progress.reached();
                     if (counts_for_run && step && (!step_ || *step > *step_)) step_ = step;
                   },
                   [&](const events::AttemptEnd& end) { take(end); },
                   [&](const events::Ended& end) {
                     read_.last.run_has_ended = true;
                     read_.last.is_requeued_after_end = end.is_requeued_after_end;
                     read_.last.run_is_completed = end.state == EndState::kCompleted;
                     if (read_.last.run_is_completed || end.code != 0)
                       read_.last.code = clamped_code(end.code);
                   },
                   [&](const events::Restarting& restarting) { take(restarting); },
                   [](const auto&) {}},
        recorded->event);
  }

  [[nodiscard]] RecordedHistory finish() {
    // If the record ends with an `attempt_end` that lists silent nodes, lead was lost before Slurm
    // said whether these nodes had failed. This counts as a node failure.
    auto& last = read_.last;
    if (had_silent_nodes_ && !last.is_restart_recorded && !last.run_has_ended)
      last.cause = Cause::kNodeFailure;
    add_attempt_to_history();
    return std::move(read_);
  }

 private:
  void add_attempt_to_history() {
    if (read_.last.has_attempt)
      read_.history.add_attempt(step_, read_.last.cause, reports_from_first_step_ || !has_joined_);
  }

  void begin_attempt(std::int64_t attempt) {
    auto& last = read_.last;
    if (last.has_attempt && attempt == last.attempt) return;
    add_attempt_to_history();
    last = {.has_attempt = true, .cause = Cause::kNodeFailure, .attempt = attempt};
    step_.reset();
    has_joined_ = false;
    had_silent_nodes_ = false;
  }

  void take(const events::AttemptEnd& end) {
    auto& last = read_.last;
    last.code = clamped_code(end.code);
    last.cause = end.cause.value().value_or(Cause::kNone);
    if (last.cause == Cause::kPreemption) read_.history.note_preemption();
    had_silent_nodes_ = end.suspect_nodes.has_value();
    // No cause is recorded for the signal. Lead reads this record only when the run starts again:
    // the job was queued again, or the next job of the run's chain has started. The end counts as a
    // preemption.
    if (last.cause == Cause::kNone && end.reason == EndReason::kSignalled)
      last.cause = Cause::kPreemption;
  }

  void take(const events::Restarting& restarting) {
    auto& last = read_.last;
    last.is_restart_recorded = true;
    last.cause = restarting.cause.value().value_or(last.cause);
    if (last.cause == Cause::kPreemption) read_.history.note_preemption();
    read_.history.add_restart();
    for (const auto& node : restarting.exclude) read_.history.add_bad_node(node);
  }

  RecordedHistory read_;
  bool reports_from_first_step_;
  std::string first_main_;  ///< name of the first main component; empty if there are no components
  // About the attempt that is being read:
  std::optional<std::int64_t> step_;  ///< the highest reported step
  bool has_joined_ = false;
  bool had_silent_nodes_ = false;
};

}  // namespace

RecordedHistory read_history(std::string_view events, bool reports_from_first_step) {
  HistoryReader reader(reports_from_first_step);
  for (const auto line : split(events, '\n')) reader.add_line(line);
  return reader.finish();
}

Result<RecordedHistory> read_history_file(const std::filesystem::path& events,
                                          bool reports_from_first_step) {
  DLRUN_TRY_ASSIGN(const auto file, open_untrusted(events, Links::kRefuse));
  HistoryReader reader(reports_from_first_step);
  LineReader lines(file.get(), 0, std::numeric_limits<off_t>::max());
  while (const auto line = lines.next()) reader.add_line(*line);
  return reader.finish();
}

std::optional<std::int64_t> grown_memory(const RetryOptions& options, std::int64_t present_mib) {
  if (options.memory_factor <= 1 || present_mib <= 0 || present_mib >= options.memory_limit_mib)
    return std::nullopt;
  const double grown = std::ceil(static_cast<double>(present_mib) * options.memory_factor);
  return grown >= static_cast<double>(options.memory_limit_mib) ? options.memory_limit_mib
                                                                : static_cast<std::int64_t>(grown);
}

RetryDecision decide_retry(const RetryOptions& options, const RetryHistory& history, Cause cause) {
  if (!options.is_enabled() || cause == Cause::kNone) return {};
  const int left = std::max(options.max - history.restart_count(), 0);
  // A user asked for this restart, so it does not count against the budget.
  if (cause == Cause::kRequeue) return {true, left, false, {}};
  if (is_of_container(cause)) return {false, left, false, "the container would fail again"};
  if (!options.on.contains(cause))
    return {false, left, false, fmt::format("'{}' is not in retry.on", word(cause))};
  if (history.fruitless_count() >= options.no_progress) {
    return {false, left, false,
            options.no_progress == 1
                ? std::string("the attempt got no further (retry.no_progress)")
                : fmt::format("{} attempts in a row got no further (retry.no_progress)",
                              history.fruitless_count())};
  }
  if (left == 0)
    return {
        false, 0, false,
        fmt::format("it has already restarted {} (retry.max)",
                    options.max == 1 ? std::string("once") : fmt::format("{} times", options.max))};
  return {true,
          left - 1,
          history.has_reported_step() && history.fruitless_count() + 1 >= options.no_progress,
          {}};
}

}  // namespace dlrun::agent
