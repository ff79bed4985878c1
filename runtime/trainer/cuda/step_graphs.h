#pragma once
// Runs training steps on the GPU as CUDA graphs.

#include <cstddef>
#include <vector>

#include <cuda_runtime.h>

#include "common/result.h"

namespace dlrun::trainer::cuda {

/// Captures the operations that are queued on a stream, and then launches them together as one
/// graph. Each step except the first of its kind is captured anew, because its arguments differ
/// from those of the step before. The object keeps one executable graph for each kind of step. If
/// only the arguments have changed, launch() updates this graph; otherwise launch() instantiates
/// the graph again. Functions fail with kInternal and name CUDA's call; the captured operations are
/// then lost.
class StepGraphs {
 public:
  StepGraphs() = default;
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;
  ~StepGraphs();

  /// Starts a stream capture, which launch() ends. In the first step of a kind, starts no capture:
  /// in that step libraries allocate and initialise their state. kind: the number that the caller
  /// uses for all steps of one kind.
  [[nodiscard]] Result<> begin_step(std::size_t kind, cudaStream_t stream);
  [[nodiscard]] bool is_capturing() const { return is_capturing_; }
  /// Queues the captured operations on the stream.
  [[nodiscard]] Result<> launch();

 private:
  /// One kind of step and its executable graph; `executable` is nullptr before the first launch.
  struct Kind {
    std::size_t number = 0;  // begin_step()'s argument
    cudaGraphExec_t executable = nullptr;
  };
  std::vector<Kind> kinds_;  // one for each kind of step that has begun
  std::size_t current_ = 0;  // index in kinds_ of the captured step's kind
  cudaStream_t stream_ = nullptr;
  bool is_capturing_ = false;
};

}  // namespace dlrun::trainer::cuda
