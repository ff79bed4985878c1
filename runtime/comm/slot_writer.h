#pragma once
// Writes data into memory that other ranks read, with the faster of two kinds of store.
//
// A plain store to a cache line that another processor has read must first fetch the line from that
// processor's cache. Processors that share a cache reach 10 GB/s and more this way, others 2 GB/s,
// which is then most of a collective's time. A streaming store bypasses the caches; the reader gets
// the data from memory.
//
// Streaming stores are better between distant processors (by a factor of 4 on two core complexes of
// an EPYC), and for small messages everywhere. Plain stores are better between near processors, by
// a factor of 2. No table of the topology is reliable, since virtual processors move. Each rank
// therefore times a part of every large plain write. After two slow writes in a row it uses
// streaming stores. It still times a part of every eighth large write, so that it can switch back.

#include <cstddef>

namespace dlrun {

class SlotWriter {
 public:
  /// Announces a collective of this many bytes.
  void begin(std::size_t bytes);

  /// Copies like memcpy into shared memory. The caller may tell other ranks about the data right
  /// after the call.
  void write(void* to, const void* from, std::size_t bytes);

 private:
  void took(double nanoseconds);

  bool is_little_ = false;  // the current collective moves few bytes
  bool is_far_ = false;     // plain writes have been slow
  int slow_ = 0;            // counter of slow writes, 0 to 2; changes is_far_ at either end
  unsigned streamed_ = 0;   // number of streamed writes
};

}  // namespace dlrun
