#pragma once
// Before lead exits, waits until the run's record is on the disk. Without this wait, a disk that
// hangs for a minute would lose the end of a completed run.

#include <chrono>

#include "runtime/agent/event_log.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/sink.h"

namespace dlrun::agent {

struct RecordWait {
  EventLoop& loop;
  EventLog& events;
  Sink& err;
  int signal_fd;
  std::chrono::milliseconds slow_after{3000};  ///< after this time a line on err explains the wait
  std::chrono::minutes limit{15};
};

/// Waits until every event is on the disk or lost (EventLog::take_failure). Returns false after the
/// limit, or after two signals that ask to end; err then gets a message that the last lines are
/// missing.
[[nodiscard]] bool wait_for_record(const RecordWait& wait);

}  // namespace dlrun::agent
