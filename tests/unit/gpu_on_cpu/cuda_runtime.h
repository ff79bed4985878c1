#pragma once
// Replaces CUDA's header in tests that compile the GPU's loops as C++. The launch of a kernel
// returns after the kernel has run. Contexts (ucontext_t) of the calling thread act as the kernel's
// threads. The blocks run one after another, and the threads of a block switch at __syncthreads().
// Copies are queued, and run when the caller waits for an event that was recorded after them. Each
// launch of a graph queues the copies that were captured for it.

#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <ucontext.h>

#define __global__ static
#define __device__
#define __host__
#define __shared__ static  // blocks run one after another

using cudaStream_t = void*;

struct dim3 {
  unsigned x = 1;
  unsigned y = 1;
  // Implicit, as in CUDA, so that a number can be passed as a size.
  dim3(unsigned width, unsigned height = 1) : x(width), y(height) {}
};

namespace gpu_on_cpu {

/// A thread of the running block.
struct Thread {
  ucontext_t context{};
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  dim3 index{0, 0};
  bool is_done = false;

  static constexpr std::size_t kStackBytes = std::size_t{32} << 10U;
};

/// The values of the built-in variables, the running thread, and the kernel: work(argument).
struct Device {
  dim3 thread_index{0, 0}, block_index{0, 0}, block_size{1}, grid_size{1};
  ucontext_t scheduler{};
  Thread* running = nullptr;
  void (*work)(const void*) = nullptr;
  const void* argument = nullptr;
};
inline Device device;

/// Switches from the running thread to run().
inline void switch_to_scheduler() {
  Thread* const self = device.running;
  swapcontext(&self->context, &device.scheduler);
}

/// Runs the kernel in the context of a thread.
inline void thread_main() {
  device.work(device.argument);
  device.running->is_done = true;
  switch_to_scheduler();
}

/// Prepares a thread to start. This is a separate function, because variables may be lost in a
/// function in which getcontext() returns twice.
[[gnu::noinline]] inline void prepare(Thread& thread) {
  thread.is_done = false;
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack.get();
  thread.context.uc_stack.ss_size = Thread::kStackBytes;
  thread.context.uc_link = nullptr;
  makecontext(&thread.context, thread_main, 0);
}

/// Runs work() on every thread of every block. Throws if a GPU would refuse the sizes; the limits
/// are those of compute capability 3.0 and newer.
template <typename Work>
void run(dim3 blocks, dim3 threads, const Work& work) {
  const unsigned count = threads.x * threads.y;
  if (blocks.x == 0 || blocks.x > 0x7fffffffU || blocks.y == 0 || blocks.y > 65535 || count == 0 ||
      count > 1024)
    throw std::invalid_argument("a launch that a GPU refuses");
  device.block_size = threads;
  device.grid_size = blocks;
  device.work = [](const void* argument) { (*static_cast<const Work*>(argument))(); };
  device.argument = &work;
  std::vector<Thread> block(count);
  for (unsigned y = 0; y < blocks.y; ++y) {
    for (unsigned x = 0; x < blocks.x; ++x) {
      device.block_index = {x, y};
      for (unsigned i = 0; i < count; ++i) {
        prepare(block[i]);
        block[i].index = {i % threads.x, i / threads.x};
      }
      for (bool is_busy = true; is_busy;) {
        is_busy = false;
        for (Thread& thread : block) {
          if (thread.is_done) continue;
          device.running = &thread;
          device.thread_index = thread.index;
          swapcontext(&device.scheduler, &thread.context);
          is_busy = is_busy || !thread.is_done;
        }
      }
    }
  }
}

/// The only stream, and the copies that were captured for the next graph.
struct Queue {
  std::deque<std::function<void()>> waiting;
  std::vector<std::function<void()>> captured;
  bool is_capturing = false;
  std::size_t instantiated_graph_count = 0;
  std::size_t done_count = 0;

  [[nodiscard]] std::size_t ever_queued_count() const { return done_count + waiting.size(); }
  /// Runs the oldest copies until `count` copies have run since the start of the program.
  void run_until(std::size_t count) {
    for (; done_count < count; ++done_count) {
      waiting.front()();
      waiting.pop_front();
    }
  }
};
inline Queue queue;

inline bool has_host_memory = true;  ///< false: cudaHostAlloc() fails

struct Graph {
  std::vector<std::function<void()>> work;
};

struct Event {
  std::size_t earlier_copy_count = 0;  ///< copies queued before the event, run or not
};

}  // namespace gpu_on_cpu

enum cudaError_t { cudaSuccess, cudaErrorInvalidValue };
enum cudaMemcpyKind { cudaMemcpyHostToDevice };
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed };
using cudaEvent_t = gpu_on_cpu::Event*;
using cudaGraph_t = gpu_on_cpu::Graph*;
using cudaGraphExec_t = gpu_on_cpu::Graph*;
struct cudaGraphExecUpdateResultInfo {};
constexpr unsigned cudaHostAllocDefault = 0;
constexpr unsigned cudaEventDisableTiming = 2;

inline const char* cudaGetErrorString(cudaError_t /*code*/) {
  return "invalid value";
}
inline cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  if (!gpu_on_cpu::has_host_memory) return cudaErrorInvalidValue;
  *memory = new std::byte[bytes];
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* memory) {
  delete[] static_cast<std::byte*>(memory);
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new gpu_on_cpu::Event;
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t /*stream*/) {
  // In CUDA, the event would become part of the captured graph.
  if (gpu_on_cpu::queue.is_capturing) return cudaErrorInvalidValue;
  event->earlier_copy_count = gpu_on_cpu::queue.ever_queued_count();
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  gpu_on_cpu::queue.run_until(event->earlier_copy_count);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t /*stream*/) {
  if (kind != cudaMemcpyHostToDevice || bytes == 0) return cudaErrorInvalidValue;
  const auto copy = [=] { std::memcpy(to, from, bytes); };
  if (gpu_on_cpu::queue.is_capturing) {
    gpu_on_cpu::queue.captured.emplace_back(copy);
  } else {
    gpu_on_cpu::queue.waiting.emplace_back(copy);
  }
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t /*stream*/, cudaStreamCaptureMode /*mode*/) {
  if (gpu_on_cpu::queue.is_capturing) return cudaErrorInvalidValue;
  gpu_on_cpu::queue.is_capturing = true;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t /*stream*/, cudaGraph_t* graph) {
  if (!gpu_on_cpu::queue.is_capturing) return cudaErrorInvalidValue;
  gpu_on_cpu::queue.is_capturing = false;
  *graph = new gpu_on_cpu::Graph{std::exchange(gpu_on_cpu::queue.captured, {})};
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                        unsigned long long /*flags*/) {
  ++gpu_on_cpu::queue.instantiated_graph_count;
  *executable = new gpu_on_cpu::Graph(*graph);
  return cudaSuccess;
}
/// Replaces the copies of `executable` by those of `graph`. Fails if their numbers differ.
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                       cudaGraphExecUpdateResultInfo* /*result*/) {
  if (executable->work.size() != graph->work.size()) return cudaErrorInvalidValue;
  *executable = *graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t /*stream*/) {
  for (const auto& work : executable->work) gpu_on_cpu::queue.waiting.push_back(work);
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

#define threadIdx (gpu_on_cpu::device.thread_index)
#define blockIdx (gpu_on_cpu::device.block_index)
#define blockDim (gpu_on_cpu::device.block_size)
#define gridDim (gpu_on_cpu::device.grid_size)
#define __syncthreads gpu_on_cpu::switch_to_scheduler
