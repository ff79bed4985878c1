#pragma once
// Memory that the ranks of one node share, and how they wait for each other in it.
//
// The memory has no name: rank 0 makes it (memfd_create) and passes its descriptor to the others
// over a Unix socket in the abstract namespace, whose name travels through the store. So a killed
// rank leaves nothing behind, whenever it dies, the size of /dev/shm does not matter, and ranks in
// containers of their own meet as long as these share a network namespace.
//
// Ranks go in steps that all of them count alike. publish() says that this rank has done its part
// of a step, await() returns when all have. Each rank has a slot that it alone writes and all read:
// kBuffers buffers of chunk_bytes() each, taken in turn. What a rank put into its buffer before
// publishing step s may be read by the others until they publish s + 2; it is written again for
// step s + 3, whose writer has awaited s + 2. Steps are counted in 64 bits, so that the count never
// starts again: 2^32 is no multiple of kBuffers, and two steps in a row would share a buffer.

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

/// Where the parts of a world's shared memory begin, in bytes. Every part begins with a page of its
/// own, because ranks map and allocate the parts one by one.
struct ShmLayout {
  std::size_t chunk_bytes = 0;  ///< one buffer
  std::size_t slots = 0;        ///< the first rank's slot; what all ranks write lies before it
  std::size_t slot_bytes = 0;   ///< the buffers of one rank
  std::size_t end = 0;

  /// page_bytes: the machine's, a power of two.
  [[nodiscard]] static ShmLayout of(int ranks, std::size_t page_bytes);
};

class ShmSegment {
 public:
  static constexpr std::size_t kHeadBytes = 64;  ///< what all ranks share besides their lines
  static constexpr std::size_t kLineBytes =
      64;  ///< of each rank, what others look at while they wait

  /// Blocks until all ranks are here. Fails with kInvalid (no store, ranks on several nodes),
  /// kTimeout (naming who did not come), kIo (no memory, how much is needed), kPeer. first_step:
  /// steps are counted from here, on every rank.
  [[nodiscard]] static Result<std::unique_ptr<ShmSegment>> join(const CommunicatorOptions& options,
                                                                std::uint64_t first_step = 0);

  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::size_t chunk_bytes() const { return layout_.chunk_bytes; }

  /// The buffer of rank that belongs to step. Aligned to 64 bytes.
  [[nodiscard]] std::byte* buffer(int rank, std::uint64_t step) const;

  /// The step that the next publish() completes.
  [[nodiscard]] std::uint64_t next_step() const { return step_ + 1; }

  /// False where ranks have to share processors: a waiting rank then sleeps at once, because the
  /// rank that it waits for may need its processor.
  [[nodiscard]] bool polls() const { return poll_for_.count() > 0; }

  /// Says to the others what this rank calls now; compared in the first await() that follows, so
  /// that a rank that calls something else is an error and no hang. signature: the same for the
  /// same call on every rank.
  void begin(std::uint64_t signature);

  void publish();

  /// Returns when all ranks have published the step that this one published last. Polls for a
  /// moment, then sleeps. Fails with kPeer, naming the rank that is gone, left or calls something
  /// else, and with kTimeout.
  [[nodiscard]] Result<> await();

  /// bytes more, zeroed, that all ranks have once each of them has called this with the same
  /// number, in the same order: to be used after the next await(). nullptr where this rank finds no
  /// room.
  [[nodiscard]] std::shared_ptr<std::byte> extend(std::size_t bytes);

  [[nodiscard]] bool has_left() const { return has_left_; }

  /// The others' await() fails from now on, unless all they wait for is there; this rank's fails,
  /// too.
  void leave();

 private:
  struct Head;
  struct Line;

  ShmSegment(const CommunicatorOptions& options, UniqueFd memory);

  [[nodiscard]] static Result<UniqueFd> make_memory(const CommunicatorOptions& options);
  [[nodiscard]] static Result<UniqueFd> ask_for_memory(const CommunicatorOptions& options);
  [[nodiscard]] Result<> map();
  [[nodiscard]] Result<> hand_out(const CommunicatorOptions& options);
  [[nodiscard]] Result<> meet();
  [[nodiscard]] Line& line(int rank) const;
  [[nodiscard]] bool has_reached(int rank, std::uint64_t step) const;
  [[nodiscard]] Result<> await_rank(int rank);
  [[nodiscard]] Result<> compare_calls() const;
  [[nodiscard]] bool is_alive(int rank) const;
  [[nodiscard]] Result<> lost_error() const;
  [[nodiscard]] Result<> timeout_error() const;
  void declare_lost(std::uint32_t word);
  void wake_all() const;

  UniqueFd memory_;  ///< an open file description of this rank's own: its lock on byte rank() tells
                     ///< that it lives
  std::byte* base_ = nullptr;
  int rank_;
  int size_;
  ShmLayout layout_;
  std::size_t end_ = 0;  ///< of the memory, in bytes
  std::chrono::milliseconds timeout_;
  std::chrono::microseconds poll_for_{0};
  std::uint64_t step_ = 0;
  std::uint64_t calls_ = 0;
  bool is_compared_ = true;  ///< the current call has been compared with the others'
  bool has_left_ = false;
};

}  // namespace dlrun
