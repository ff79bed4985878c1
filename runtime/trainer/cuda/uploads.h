#pragma once
// Copies data from host memory to the GPU.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cuda_runtime.h>

#include "common/result.h"

namespace dlrun::trainer::cuda {

/// Copies through a ring of chunks of pinned host memory, which the GPU reads by itself. A copy is
/// queued on the stream like any other operation; the caller's memory may change as soon as copy()
/// or copy_rows() returns. A copy waits only if the GPU still reads all chunks. Small copies share
/// a chunk. Captured copies (step_graphs.h) occupy their chunks until their graph has been
/// launched; if they occupy all chunks, the ring grows. Functions fail with kInternal; the message
/// names the operation.
class Uploads {
 public:
  static constexpr std::size_t kInitialChunks = 8;
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 20U;

  Uploads() = default;
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;
  /// Destroy only after all queued operations have completed.
  ~Uploads();

  /// Call once before any copy. The stream must outlive the last copy.
  [[nodiscard]] Result<> prepare(cudaStream_t stream);

  /// Copies from host memory to device memory.
  [[nodiscard]] Result<> copy(void* to, const void* from, std::size_t bytes);

  /// Computes to[i, :] = from[rows[i], :]. from: host memory, rows of `width` bytes; to: device
  /// memory, [rows.size() x width].
  [[nodiscard]] Result<> copy_rows(std::uint8_t* to, const std::uint8_t* from,
                                   std::span<const std::uint32_t> rows, std::size_t width);

  /// Announces that a capture of the stream begins (StepGraphs::begin_step).
  void note_capture() { is_capturing_ = true; }
  /// Announces that the captured graph has been launched. Call it after StepGraphs::launch() and
  /// before other operations are queued.
  [[nodiscard]] Result<> note_launch();

 private:
  struct Chunk {
    std::byte* memory = nullptr;
    // Recorded after the chunk's last copy. The chunk is free when the event has occurred.
    cudaEvent_t copies_done = nullptr;
    bool has_captured_copies = false;  // in use by captured copies
  };

  /// Inserts a new chunk at index `at`. If this fails, the ring stays as it is.
  [[nodiscard]] Result<> add_chunk(std::size_t at);
  /// Returns pinned memory for the next copy: `bytes`, or one chunk if that is less. Waits if the
  /// GPU still reads the next chunk.
  [[nodiscard]] Result<std::span<std::byte>> reserve_staging(std::size_t bytes);
  /// Queues the copy from the pinned memory `staged` to the GPU.
  [[nodiscard]] Result<> send(void* to, std::span<const std::byte> staged);

  cudaStream_t stream_ = nullptr;
  std::vector<Chunk> chunks_;
  std::size_t current_chunk_ = 0;  // index of the chunk that is being filled
  std::size_t used_bytes_ = 0;     // number of bytes in use in the current chunk
  bool is_capturing_ = false;
};

}  // namespace dlrun::trainer::cuda
