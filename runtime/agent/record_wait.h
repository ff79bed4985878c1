#pragma once
// The wait for the run's record at lead's end: a disk that hangs for a minute must not make a run
// that completed one that nobody knows the end of.

#include <chrono>

#include "runtime/agent/event_loop.h"
#include "runtime/agent/events.h"
#include "runtime/agent/sink.h"

namespace dlrun::agent {

struct RecordWait {
  EventLoop& loop;
  EventLog& events;
  Sink& err;
  int signal_fd;
  std::chrono::milliseconds is_slow{3000};  ///< then a line on err says what is waited for
  std::chrono::minutes limit{15};
};

/// Waits until all events are on the disk or lost (EventLog::take_failure). False when the limit
/// has passed, or two signals asked for the end meanwhile: err has been told what the record lacks.
[[nodiscard]] bool wait_for_record(const RecordWait& wait);

}  // namespace dlrun::agent
