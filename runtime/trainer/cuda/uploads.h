#pragma once
// The way of host memory to the GPU.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cuda_runtime.h>

#include "common/result.h"

namespace dlrun::trainer::cuda {

/// Copies through a ring of chunks of pinned host memory, which the GPU reads by itself: a copy is
/// queued on the stream like any operation, the caller's memory may change as soon as it returns,
/// and nobody waits, unless all of the ring is on its way. Small copies lie behind one another in a
/// chunk. Of copies that are recorded (step_graphs.h) the chunks wait for what they are recorded
/// for; the ring grows where that needs more of them. Fails with kInternal, naming the call of
/// CUDA's.
class Uploads {
 public:
  static constexpr std::size_t kChunks = 8;
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 20U;

  Uploads() = default;
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;
  /// What was queued has happened by then.
  ~Uploads();

  /// Once, before any copy; stream outlives the last one.
  [[nodiscard]] Result<> prepare(cudaStream_t stream);

  /// to = from. to: device memory.
  [[nodiscard]] Result<> copy(void* to, const void* from, std::size_t bytes);

  /// to[i, :] = from[rows[i], :]. from: [above every row x width]; to: device memory, [rows x
  /// width].
  [[nodiscard]] Result<> copy_rows(std::uint8_t* to, const std::uint8_t* from,
                                   std::span<const std::uint32_t> rows, std::size_t width);

  /// Between them what is queued on the stream is recorded; end: it was handed over, and comes
  /// before what is queued next.
  void begin_recording() { is_recording_ = true; }
  [[nodiscard]] Result<> end_recording();

 private:
  struct Chunk {
    std::byte* memory = nullptr;
    cudaEvent_t free = nullptr;  // the copies out of it are done
    bool is_held = false;        // by copies that are recorded
  };

  /// Puts a chunk in place at.
  [[nodiscard]] Result<> add_chunk(std::size_t at);
  /// Pinned memory for the next copy: of so many bytes, or of a chunk's where they are more.
  [[nodiscard]] Result<std::span<std::byte>> room(std::size_t bytes);
  /// What lies in place goes to the GPU.
  [[nodiscard]] Result<> send(void* to, std::span<const std::byte> place);

  cudaStream_t stream_ = nullptr;
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;  // the one that is being filled
  std::size_t used_ = 0;   // bytes of it
  bool is_recording_ = false;
};

}  // namespace dlrun::trainer::cuda
