// The program's reports while an attempt runs. progress_recorder.h turns them into events.

#include <signal.h>

#include "runtime/agent/attempt.h"

namespace dlrun::agent {

void Attempt::on_progress(int rank, const Json& body, Clock::time_point now) {
  if (rank != 0 || !body.is_object()) return;
  auto* const running = in<Running>();
  if (body.empty()) {
    if (running != nullptr) running->hang.on_unreadable_report(now);
    return;
  }
  if (ProgressRecorder::is_result(body)) {
    progress_.add_result(body);
    if (running != nullptr) running->hang.stop_watching();
  } else {
    auto where = progress_.update_position(body);
    if (running != nullptr) {
      running->hang.on_progress(now, std::move(where));
      if (running->must_end_by && body.contains("checkpoint") && !progress_.has_reported_done()) {
        return end_for(EndReason::kTimeLimit, 128 + SIGTERM,
                       "the time limit is near, and a checkpoint has been saved", now);
      }
    }
    progress_.hold(body);
  }
  record_progress(now);
}

void Attempt::record_progress(Clock::time_point now) {
  if (const auto progress = progress_.progress().take_due(now)) outlet_.record(*progress);
  if (const auto result = progress_.result().take_due(now)) outlet_.record(*result);
}

}  // namespace dlrun::agent
