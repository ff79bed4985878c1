#pragma once
// Spreads loops over GPU threads. CUDA's compiler compiles this file. Tests compile it for the CPU,
// to run the loops without a GPU (tests/unit/gpu_on_cpu).

#include <cstddef>

#include <cuda_runtime.h>

namespace dlrun::trainer::cuda {

constexpr unsigned kWarp = 32;          // threads of a warp
constexpr unsigned kThreads = 256;      // threads of a block
constexpr unsigned kMostBlocks = 4096;  // limit of blocks_for()

/// Returns the number of blocks for `count` elements: one thread for each element, but at most
/// kMostBlocks blocks, whose threads then compute several elements each. count > 0.
inline unsigned blocks_for(std::size_t count) {
  const std::size_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

/// Queues kernel(arguments...) on the stream. The grid must not be empty, or CUDA reports an error.
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

/// Returns the start of the loop over this thread's elements of [0, count):
///   for (size_t i = first(); i < count; i += stride())
__device__ inline std::size_t first() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
/// Returns the increment of the loop that starts at first(): the number of threads in the grid.
__device__ inline std::size_t stride() {
  return std::size_t{gridDim.x} * blockDim.x;
}

/// Adds the sum of `loss` over all threads to totals[0], and the sum of `correct` (a thread's
/// number of right answers) to totals[1]. The grid must be one block of kThreads threads. The order
/// of the additions is fixed, so that every run gives the same bits.
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
