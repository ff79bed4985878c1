// The program's reports: progress and results for the record, at most one event a second each.

#include <signal.h>

#include <algorithm>

#include "common/text.h"
#include "runtime/agent/attempt.h"

namespace dlrun::agent {
namespace {

/// Returns a count that the program reported; -1 if it did not report it.
std::int64_t count_of(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer()
             ? std::max<std::int64_t>(found->get<std::int64_t>(), -1)
             : -1;
}

}  // namespace

void Attempt::on_progress(int rank, const Json& body, Clock::time_point now) {
  if (rank != 0 || !body.is_object()) return;
  if (body.empty()) return hang_watch_.on_sign_of_life(now);
  const auto final = body.find("final");
  if (final != body.end() && final->is_boolean() && final->get<bool>()) {
    keep_result(body, now);
    signs_.has_said_done = true;
    held_progress_.reset();
    hang_watch_.off();
    return;
  }
  const auto told = count_of(body, "step");
  const auto step = told >= 0 ? told : count_of(body, "epoch");
  if (step >= 0) step_ = std::max(step_.value_or(step), step);
  if (const auto steps = count_of(body, "steps"); steps > 0 && told >= steps)
    signs_.has_said_done = true;
  hang_watch_.on_progress(
      now, step < 0 ? std::string() : fmt::format("{} {}", told >= 0 ? "step" : "epoch", step));
  const bool has_saved = body.contains("checkpoint");
  if (has_saved && limit_at_ && !signs_.has_said_done && phase_ == Phase::kRunning) {
    return end_for(EndReason::kTimeLimit, 128 + SIGTERM,
                   "the time limit is near, and a checkpoint is saved", now);
  }
  if (has_saved && !body.contains("step")) return;
  auto kept = events::Progress::of(body);
  if (kept.empty()) return;  // no field of the report belongs in the record
  held_progress_ = std::move(kept);
  flush_progress(now);
}

void Attempt::keep_result(const Json& body, Clock::time_point now) {
  auto result = result_;
  result.add(events::Result::of(body));
  if (signs_.has_said_done && result.values == result_.values) return;
  result_ = std::move(result);
  is_result_held_ = true;
  flush_result(now);
}

void Attempt::flush_result(Clock::time_point now) {
  if (!is_result_held_ || now < last_result_ + kProgressEvery) return;
  last_result_ = now;
  is_result_held_ = false;
  outlet_.record(result_);
}

void Attempt::flush_progress(Clock::time_point now) {
  if (!held_progress_ || now < last_progress_ + kProgressEvery) return;
  last_progress_ = now;
  outlet_.record(*held_progress_);
  held_progress_.reset();
}

}  // namespace dlrun::agent
