#pragma once
// Records a timeline of a run's first steps in the Trace Event Format ("JSON Object Format"), which
// ui.perfetto.dev and chrome://tracing open. Each rank writes PREFIX-rank-0003.json (with its own
// number), and rank 0 also writes PREFIX.json with the events of all ranks.
//
// In the timeline, each rank is a process. The first track of this process shows the steps and,
// nested, their parts. All-reduces overlap, so each gradient bucket has its own track. Time 0 is
// the end of a barrier at the start of the trace, so the clocks of the nodes need not agree. GPU
// work is shown at the time at which it was queued.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"

namespace dlrun::trainer {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::size_t steps = 0;         ///< number of steps to record
    std::filesystem::path prefix;  ///< prefix of the files' paths; directories are created
    std::string host;              ///< host name of this rank
    std::size_t bucket_count = 0;  ///< number of tracks for buckets
  };

  /// Starts recording. All ranks must call it. `communicator` must outlive the trace. Fails as the
  /// communicator's barrier does.
  [[nodiscard]] static Result<Trace> start(Communicator& communicator, Options options);

  /// Records the time from its construction to its destruction on the first track, with `amount`
  /// under the name `amount_name`. Does nothing if `trace` is nullptr, or after the last recorded
  /// step. The texts must be literals, because the trace keeps only the pointers.
  class Span {
   public:
    explicit Span(Trace* trace, const char* name, const char* amount_name = nullptr,
                  std::uint64_t amount = 0);
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
    ~Span();

   private:
    Trace* trace_;  // nullptr: do nothing
    const char* name_;
    const char* amount_name_;
    std::uint64_t amount_;
    Clock::time_point begin_;
  };

  /// Records an interval that the caller has measured, on the first track. `name` must be a
  /// literal.
  void add_span(const char* name, Clock::time_point begin, Clock::time_point end);
  /// Records an interval in which bucket i was exchanged, on the bucket's track. `name` must be a
  /// literal.
  void add_bucket_span(std::size_t i, const char* name, std::uint64_t bytes,
                       Clock::time_point begin, Clock::time_point end);

  /// Ends a step. Returns true if it was the last step to record; the caller then calls write().
  [[nodiscard]] bool end_step();
  [[nodiscard]] bool is_recording() const { return steps_left_ > 0; }

  /// Stops recording and writes the files. All ranks must call it. Fails with kIo on the rank that
  /// cannot write a file, or as a broadcast does.
  [[nodiscard]] Result<> write();

 private:
  struct Event {
    const char* name;
    const char* amount_name;
    std::uint64_t amount;
    Clock::time_point begin, end;
    std::size_t track;
  };

  Trace(Communicator& communicator, Options options);
  [[nodiscard]] std::string events_json() const;

  Communicator* communicator_;
  Options options_;
  std::size_t steps_left_;
  Clock::time_point start_;  // time 0
  std::vector<Event> events_;
};

}  // namespace dlrun::trainer
