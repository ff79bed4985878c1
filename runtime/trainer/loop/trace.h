#pragma once
// A timeline of a run's first steps, in the Trace Event Format ("JSON Object Format") that
// ui.perfetto.dev and chrome://tracing open: PREFIX-rank-0003.json of each rank, written by it, and
// PREFIX.json of all, written by rank 0.
//
// A rank is a process of the timeline. Its first track has the steps and what they are made of, one
// inside the other; each bucket of gradients has a track of its own, since their all-reduces
// overlap. Time 0 is the barrier with which the trace starts, so that the clocks of nodes need not
// agree. What a GPU does shows as when it was asked for.

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
    std::size_t steps = 0;         ///< that are recorded
    std::filesystem::path prefix;  ///< of the files' paths; folders are made
    std::string host;
    std::size_t buckets = 0;
  };

  /// Records from now on. Collective. communicator outlives it. Fails as its barrier does.
  [[nodiscard]] static Result<Trace> start(Communicator& communicator, Options options);

  /// Work of this rank from a span's making to its end, on the first track. Without a trace, or
  /// after its last step, nothing. The words are literals.
  class Span {
   public:
    explicit Span(Trace* trace, const char* name, const char* of_what = nullptr,
                  std::uint64_t amount = 0);
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
    ~Span();

   private:
    Trace* trace_;  // nullptr: nothing
    const char* name_;
    const char* of_what_;
    std::uint64_t amount_;
    Clock::time_point begin_;
  };

  /// What was timed elsewhere: on the first track, and a bucket's communication on its own. name is
  /// a literal.
  void span(const char* name, Clock::time_point begin, Clock::time_point end);
  void bucket(std::size_t i, const char* name, std::uint64_t bytes, Clock::time_point begin,
              Clock::time_point end);

  /// A step, with all of its spans, is over. True after the last one: then write() is due.
  [[nodiscard]] bool end_step();
  [[nodiscard]] bool is_recording() const { return steps_left_ > 0; }

  /// Ends the recording and writes both kinds of files. Collective. Fails with this rank's kIo, or
  /// as a broadcast does.
  [[nodiscard]] Result<> write();

 private:
  struct Event {
    const char* name;
    const char* of_what;
    std::uint64_t amount;
    Clock::time_point begin, end;
    std::size_t track;
  };

  Trace(Communicator& communicator, Options options);
  [[nodiscard]] std::string text() const;

  Communicator* communicator_;
  Options options_;
  std::size_t steps_left_;
  Clock::time_point zero_;
  std::vector<Event> events_;
};

}  // namespace dlrun::trainer
