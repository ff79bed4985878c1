#include "runtime/trainer/cuda/uploads.h"

#include <algorithm>
#include <cstring>

namespace dlrun::trainer::cuda {
namespace {

/// Alignment of each copy's start in a chunk, in bytes, like cudaMalloc.
constexpr std::size_t kAlignment = 256;

Result<> checked(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return {};
  return fail(Errc::kInternal, "{}: {}", call, cudaGetErrorString(code));
}

}  // namespace

Uploads::~Uploads() {
  for (const Chunk& chunk : chunks_) {
    if (chunk.free != nullptr) cudaEventDestroy(chunk.free);
    if (chunk.memory != nullptr) cudaFreeHost(chunk.memory);
  }
}

Result<> Uploads::prepare(cudaStream_t stream) {
  stream_ = stream;
  while (chunks_.size() < kChunks) DLRUN_TRY(add_chunk(chunks_.size()));
  return {};
}

Result<> Uploads::add_chunk(std::size_t at) {
  Chunk& chunk = *chunks_.emplace(chunks_.begin() + static_cast<std::ptrdiff_t>(at));
  void* memory = nullptr;
  DLRUN_TRY(checked(cudaHostAlloc(&memory, kChunkBytes, cudaHostAllocDefault), "cudaHostAlloc"));
  chunk.memory = static_cast<std::byte*>(memory);
  return checked(cudaEventCreateWithFlags(&chunk.free, cudaEventDisableTiming), "cudaEventCreate");
}

Result<> Uploads::copy(void* to, const void* from, std::size_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    DLRUN_TRY_ASSIGN(const auto place, room(bytes));
    std::memcpy(place.data(), source, place.size());
    DLRUN_TRY(send(target, place));
    target += place.size();
    source += place.size();
    bytes -= place.size();
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
    const auto some = rows.first(std::min(rows.size(), kChunkBytes / width));
    DLRUN_TRY_ASSIGN(const auto place, room(some.size() * width));
    std::byte* row = place.data();
    for (const std::uint32_t sample : some) {
      std::memcpy(row, from + sample * width, width);
      row += width;
    }
    DLRUN_TRY(send(to, place));
    to += place.size();
    rows = rows.subspan(some.size());
  }
  return {};
}

Result<std::span<std::byte>> Uploads::room(std::size_t bytes) {
  const std::size_t most = std::min(bytes, kChunkBytes);
  if (most > kChunkBytes - used_) {
    // An event that is recorded into a graph does not signal the end of the copies. Therefore
    // end_recording() records the events of chunks with recorded copies.
    chunks_[chunk_].is_held = is_recording_;
    if (!is_recording_)
      DLRUN_TRY(checked(cudaEventRecord(chunks_[chunk_].free, stream_), "cudaEventRecord"));
    chunk_ = (chunk_ + 1) % chunks_.size();
    used_ = 0;
    if (chunks_[chunk_].is_held) DLRUN_TRY(add_chunk(chunk_));
    // This wait ends at once for a chunk that was never used.
    DLRUN_TRY(checked(cudaEventSynchronize(chunks_[chunk_].free), "cudaEventSynchronize"));
  }
  const std::span<std::byte> place(chunks_[chunk_].memory + used_, most);
  used_ += (most + kAlignment - 1) / kAlignment * kAlignment;
  return place;
}

Result<> Uploads::end_recording() {
  is_recording_ = false;
  for (Chunk& chunk : chunks_) {
    if (!chunk.is_held) continue;
    DLRUN_TRY(checked(cudaEventRecord(chunk.free, stream_), "cudaEventRecord"));
    chunk.is_held = false;
  }
  return {};
}

Result<> Uploads::send(void* to, std::span<const std::byte> place) {
  return checked(cudaMemcpyAsync(to, place.data(), place.size(), cudaMemcpyHostToDevice, stream_),
                 "copy to the GPU");
}

}  // namespace dlrun::trainer::cuda
