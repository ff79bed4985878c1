#pragma once
// How a rank writes what others read out of memory that they share.
//
// A plain store to a line that another processor has read takes the line back from its cache first.
// Processors under one cache do that at 10 GB/s and more, others at 2 GB/s, which then is most of
// what a collective costs. Streaming stores take nothing back; the reader gets the data from
// memory. They are better between distant processors (by 4 on two of an EPYC's core complexes), and
// for little data everywhere; between near ones plain stores are better, by 2. Which these are no
// table says reliably: virtual processors move. So a part of each plain write is timed: two slow
// ones in a row, and the next writes stream, but for a part of some that looks again. Each rank
// decides that for itself.

#include <cstddef>

namespace dlrun {

class SlotWriter {
 public:
  /// A collective of so many bytes begins.
  void begin(std::size_t bytes);

  /// As memcpy; to is in shared memory. Other ranks may be told of it right after.
  void write(void* to, const void* from, std::size_t bytes);

 private:
  void took(double nanoseconds);

  bool is_little_ = false;  // what this call moves
  bool is_far_ = false;     // plain writes have been slow
  int slow_ = 0;            // how sure that is
  unsigned streamed_ = 0;   // writes
};

}  // namespace dlrun
