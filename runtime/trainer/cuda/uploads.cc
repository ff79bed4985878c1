#include "runtime/trainer/cuda/uploads.h"

#include <algorithm>
#include <cstring>

namespace dlrun::trainer::cuda {
namespace {

/// Each copy starts in its chunk at a multiple of this number of bytes, the alignment of
/// cudaMalloc's memory.
constexpr std::size_t kAlignment = 256;

Result<> checked(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return {};
  return fail(Errc::kInternal, "{}: {}", call, cudaGetErrorString(code));
}

}  // namespace

Uploads::~Uploads() {
  for (const Chunk& chunk : chunks_) {
    if (chunk.copies_done != nullptr) cudaEventDestroy(chunk.copies_done);
    if (chunk.memory != nullptr) cudaFreeHost(chunk.memory);
  }
}

Result<> Uploads::prepare(cudaStream_t stream) {
  stream_ = stream;
  while (chunks_.size() < kInitialChunks) DLRUN_TRY(add_chunk(chunks_.size()));
  return {};
}

Result<> Uploads::add_chunk(std::size_t at) {
  void* memory = nullptr;
  DLRUN_TRY(checked(cudaHostAlloc(&memory, kChunkBytes, cudaHostAllocDefault), "cudaHostAlloc"));
  Chunk chunk;
  chunk.memory = static_cast<std::byte*>(memory);
  if (auto made = checked(cudaEventCreateWithFlags(&chunk.copies_done, cudaEventDisableTiming),
                          "cudaEventCreate");
      !made) {
    cudaFreeHost(memory);
    return made;
  }
  chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(at), chunk);
  return {};
}

Result<> Uploads::copy(void* to, const void* from, std::size_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    DLRUN_TRY_ASSIGN(const auto staged, reserve_staging(bytes));
    std::memcpy(staged.data(), source, staged.size());
    DLRUN_TRY(send(target, staged));
    target += staged.size();
    source += staged.size();
    bytes -= staged.size();
  }
  return {};
}

Result<> Uploads::copy_rows(std::uint8_t* to, const std::uint8_t* from,
                            std::span<const std::uint32_t> rows, std::size_t width) {
  if (width > kChunkBytes) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      DLRUN_TRY(copy(to + i * width, from + rows[i] * width, width));
    return {};
  }
  while (width > 0 && !rows.empty()) {
    const auto rows_of_chunk = rows.first(std::min(rows.size(), kChunkBytes / width));
    DLRUN_TRY_ASSIGN(const auto staged, reserve_staging(rows_of_chunk.size() * width));
    std::byte* out = staged.data();
    for (const std::uint32_t row : rows_of_chunk) {
      std::memcpy(out, from + row * width, width);
      out += width;
    }
    DLRUN_TRY(send(to, staged));
    to += staged.size();
    rows = rows.subspan(rows_of_chunk.size());
  }
  return {};
}

Result<std::span<std::byte>> Uploads::reserve_staging(std::size_t bytes) {
  const std::size_t granted = std::min(bytes, kChunkBytes);
  if (granted > kChunkBytes - used_bytes_) {
    // During a capture, cudaEventRecord() would become a part of the graph, and the event would not
    // show the end of the copies. Therefore note_launch() records the events of chunks with
    // captured copies.
    chunks_[current_chunk_].has_captured_copies = is_capturing_;
    if (!is_capturing_)
      DLRUN_TRY(checked(cudaEventRecord(chunks_[current_chunk_].copies_done, stream_),
                        "cudaEventRecord"));
    const std::size_t next = (current_chunk_ + 1) % chunks_.size();
    if (chunks_[next].has_captured_copies) DLRUN_TRY(add_chunk(next));
    current_chunk_ = next;
    used_bytes_ = 0;
    // This wait ends immediately for a chunk that was never used.
    DLRUN_TRY(
        checked(cudaEventSynchronize(chunks_[current_chunk_].copies_done), "cudaEventSynchronize"));
  }
  const std::span<std::byte> staged(chunks_[current_chunk_].memory + used_bytes_, granted);
  used_bytes_ += (granted + kAlignment - 1) / kAlignment * kAlignment;
  return staged;
}

Result<> Uploads::note_launch() {
  is_capturing_ = false;
  for (Chunk& chunk : chunks_) {
    if (!chunk.has_captured_copies) continue;
    DLRUN_TRY(checked(cudaEventRecord(chunk.copies_done, stream_), "cudaEventRecord"));
    chunk.has_captured_copies = false;
  }
  return {};
}

Result<> Uploads::send(void* to, std::span<const std::byte> staged) {
  return checked(cudaMemcpyAsync(to, staged.data(), staged.size(), cudaMemcpyHostToDevice, stream_),
                 "copy to the GPU");
}

}  // namespace dlrun::trainer::cuda
