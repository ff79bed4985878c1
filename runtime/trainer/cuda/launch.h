#pragma once
// How loops are spread over threads. For CUDA's compiler, and for tests that run the loops without
// a GPU (tests/unit/gpu_on_cpu).

#include <cstddef>

#include <cuda_runtime.h>

namespace dlrun::trainer::cuda {

constexpr unsigned kWarp = 32;
constexpr unsigned kThreads = 256;
constexpr unsigned kMostBlocks = 4096;  // loops take the rest

/// count > 0.
inline unsigned blocks_for(std::size_t count) {
  const std::size_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

/// Queues kernel(arguments...) on stream; an empty grid is an error of CUDA's.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, cudaStream_t stream,
            Arguments... arguments) {
#ifdef __CUDACC__
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
#else
  static_cast<void>(stream);
  gpu_on_cpu::run(blocks, threads, [=] { kernel(arguments...); });
#endif
}

/// This thread's elements of 0..count-1: for (size_t i = first(); i < count; i += stride()).
__device__ inline std::size_t first() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::size_t stride() {
  return std::size_t{gridDim.x} * blockDim.x;
}

/// totals += what all threads of the only block, kThreads of them, have; in a fixed order: a run
/// repeats to the bit.
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
