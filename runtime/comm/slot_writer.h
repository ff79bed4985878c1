#pragma once
// Writes data into memory that other ranks read, with the faster of two kinds of store
// instructions.
//
// A plain store to a cache line that another core has read must first fetch the line from that
// core's cache. Cores that share a cache write 10 GB/s and more with plain stores. Other cores
// write 2 GB/s; their writes take most of a collective's time. A streaming store bypasses the
// caches; the reader gets the data from memory.
//
// Streaming stores are better between cores that share no cache (by a factor of 4 on two core
// complexes of an EPYC), and for small messages everywhere. Plain stores are better between cores
// that share a cache, by a factor of 2. The cores of a virtual machine move between those of its
// host, so no table of the topology is reliable. Each rank therefore times a part of every large
// plain write. After two slow writes in a row the rank uses streaming stores. The rank then times a
// part of every eighth large write, so that it can switch back.

#include <cstddef>

namespace dlrun {

class SlotWriter {
 public:
  /// Tells this object the size of the next collective, in bytes.
  void begin_collective(std::size_t bytes);

  /// Copies like memcpy into shared memory. The caller may tell other ranks about the data right
  /// after the call.
  void write(void* to, const void* from, std::size_t bytes);

 private:
  /// Counts a timed write of kSampleBytes bytes as slow or fast.
  void record_sample(double nanoseconds);

  bool is_small_ = false;        // the current collective moves few bytes
  bool streams_large_ = false;   // plain writes were slow, so large writes stream
  int slow_minus_fast_ = 0;      // number of slow writes minus that of fast ones, limited to 0..2
  unsigned streamed_count_ = 0;  // number of large writes that used streaming stores
};

}  // namespace dlrun
