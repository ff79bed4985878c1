#pragma once
// How loops are spread over threads; CUDA's compiler alone.

#include <cstddef>

namespace dlrun::trainer::cuda {

constexpr unsigned kWarp = 32;
constexpr unsigned kThreads = 256;
constexpr unsigned kMostBlocks = 4096;  // loops take the rest

/// count > 0: an empty grid is an error of CUDA's.
inline unsigned blocks_for(std::size_t count) {
  const std::size_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

/// This thread's elements of 0..count-1: for (size_t i = first(); i < count; i += stride()).
__device__ inline std::size_t first() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::size_t stride() {
  return std::size_t{gridDim.x} * blockDim.x;
}

/// totals += what all threads of the only block, kThreads of them, have; in a fixed order: a run repeats to the bit.
__device__ inline void add_to_totals(float loss, float correct, float* totals) {
  __shared__ float losses[kThreads];
  __shared__ float corrects[kThreads];
  losses[threadIdx.x] = loss;
  corrects[threadIdx.x] = correct;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      losses[threadIdx.x] += losses[threadIdx.x + half];
      corrects[threadIdx.x] += corrects[threadIdx.x + half];
    }
  }
  if (threadIdx.x == 0) {
    totals[0] += losses[0];
    totals[1] += corrects[0];
  }
}

}  // namespace dlrun::trainer::cuda
