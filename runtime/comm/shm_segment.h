#pragma once
// Memory that the ranks of one node share, with functions by which the ranks wait for each other.
//
// The memory has no name: rank 0 creates it (memfd_create) and passes its file descriptor to the
// others over a Unix socket in the abstract namespace; the store holds the socket's name. A killed
// rank therefore leaves no files behind, the memory does not need space in /dev/shm, and ranks in
// different containers can connect if they share a network namespace.
//
// All ranks count the same steps. publish() completes this rank's part of a step; await() returns
// when all ranks have published it. Each rank has a slot that only this rank writes and all ranks
// read. A slot has three buffers of chunk_bytes() each, used in turn. The other ranks may read the
// data of step s until they publish step s + 2. The writer overwrites that buffer in step s + 3,
// after await() has returned for step s + 2. Steps are counted in 64 bits, because a 32-bit count
// would wrap: 2^32 is not a multiple of three, so two steps in a row would then use the same
// buffer.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/files.h"
#include "common/result.h"
#include "runtime/comm/make_communicator.h"

namespace dlrun {

/// Offsets and sizes of the parts of the shared memory, in bytes. Every part starts at a page
/// boundary, because each rank allocates its own slot, and extend() maps memory after `end`.
struct ShmLayout {
  std::size_t chunk_bytes = 0;  ///< size of one buffer
  /// Offset of the first slot. All ranks write the bytes below this offset: Head, and the
  /// RankCounters of each rank.
  std::size_t slots_begin = 0;
  std::size_t slot_bytes = 0;  ///< size of one rank's slot
  std::size_t end = 0;         ///< offset of the end of the last slot

  /// Returns the layout for this many ranks. page_bytes is the machine's page size, a power of two.
  [[nodiscard]] static ShmLayout of(int ranks, std::size_t page_bytes);
};

class ShmSegment {
 public:
  static constexpr std::size_t kHeadBytes = 64;  ///< bytes reserved for Head
  /// Bytes reserved for each rank's RankCounters, which other ranks read while they wait.
  static constexpr std::size_t kRankCountersBytes = 64;

  /// Connects the ranks and blocks until all are present. The first step has the number
  /// steps_before + 1; steps_before must be equal on all ranks. Fails with kInvalid (ranks
  /// on several nodes), kUnavailable (no store), kTimeout (the message names the missing ranks),
  /// kIo (no socket, or not enough memory) or kPeer.
  [[nodiscard]] static Result<std::unique_ptr<ShmSegment>> join(const CommunicatorOptions& options,
                                                                std::uint64_t steps_before = 0);

  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::size_t chunk_bytes() const { return layout_.chunk_bytes; }

  /// Returns the buffer that `rank` uses in `step`. Aligned to 64 bytes.
  [[nodiscard]] std::byte* buffer(int rank, std::uint64_t step) const;

  /// Returns the number of the step that the next publish() completes.
  [[nodiscard]] std::uint64_t next_step() const { return step_ + 1; }

  /// Returns false if ranks share processors. A waiting rank then sleeps immediately, because the
  /// rank it waits for may need the same processor.
  [[nodiscard]] bool polls() const { return poll_for_.count() > 0; }

  /// Announces this rank's next call to the other ranks. The first await() that follows compares
  /// the announcements: if a rank calls another operation, all ranks get an error and none hangs.
  /// `signature` is equal for equal calls.
  void announce_call(std::uint64_t signature);

  /// Completes this rank's part of the next step and wakes ranks that wait for it.
  void publish();

  /// Returns when all ranks have published the step that this rank published last. Polls briefly,
  /// then sleeps. Fails with kTimeout, or with kPeer and the number of a rank that ended, left or
  /// called a different operation.
  [[nodiscard]] Result<> await();

  /// Returns `bytes` bytes of additional, zeroed memory that all ranks share. Every rank makes the
  /// same calls in the same order, and uses the memory after the next await(). Returns nullptr if
  /// this rank cannot allocate its part.
  [[nodiscard]] std::shared_ptr<std::byte> extend(std::size_t bytes);

  /// Returns true if this rank has called leave().
  [[nodiscard]] bool has_this_rank_left() const { return has_left_; }

  /// Leaves without waiting for the other ranks. From then on await() always fails on this rank,
  /// and on every other rank whose await() has to wait.
  void leave();

 private:
  struct Head;
  struct RankCounters;

  ShmSegment(const CommunicatorOptions& options, UniqueFd memory);

  /// Creates the memory. Only rank 0 calls this function.
  [[nodiscard]] static Result<UniqueFd> make_memory(const CommunicatorOptions& options);
  /// Connects to rank 0 and receives the memory. All ranks except rank 0 call this function.
  [[nodiscard]] static Result<UniqueFd> ask_for_memory(const CommunicatorOptions& options);
  /// Maps the memory, allocates this rank's slot, and locks the byte that shows that this rank is
  /// alive.
  [[nodiscard]] Result<> map();
  /// Passes the memory on to the other ranks. Only rank 0 calls this function.
  [[nodiscard]] Result<> hand_out(const CommunicatorOptions& options);
  /// Runs the first step. In it, the ranks exchange the sets of processors they may use, to decide
  /// whether to poll. All ranks are present afterwards.
  [[nodiscard]] Result<> meet();
  [[nodiscard]] RankCounters& counters_of(int rank) const;
  [[nodiscard]] bool has_reached(int rank, std::uint64_t step) const;
  [[nodiscard]] Result<> await_rank(int rank);
  [[nodiscard]] Result<> compare_calls() const;
  [[nodiscard]] bool is_alive(int rank) const;
  /// Fails with kPeer and the number of the lost rank. Succeeds if no rank is lost.
  [[nodiscard]] Result<> error_if_lost() const;
  /// Returns the error of a timeout. The message lists the ranks that have not published this
  /// rank's step.
  [[nodiscard]] Result<> timeout_error() const;
  /// Stores encoded_rank in Head::lost, unless a lost rank is already stored there. Head::lost
  /// describes the encoding. Wakes all ranks.
  void declare_lost(std::uint32_t encoded_rank);
  void wake_all() const;

  /// The shared memory, opened by this rank itself. Its lock on byte rank() shows that the rank is
  /// alive.
  UniqueFd memory_;
  std::byte* base_ = nullptr;
  int rank_;
  int size_;
  ShmLayout layout_;
  std::size_t memory_bytes_ = 0;  ///< size of the memory, in bytes
  std::chrono::milliseconds timeout_;
  std::chrono::microseconds poll_for_{0};
  std::uint64_t step_ = 0;
  std::uint64_t call_count_ = 0;
  bool is_compared_ = true;  ///< the current call has been compared with the others' calls
  bool has_left_ = false;
};

}  // namespace dlrun
