#pragma once
// Runs whole training steps on the GPU as CUDA graphs.

#include <cstddef>
#include <vector>

#include <cuda_runtime.h>

#include "common/result.h"

namespace dlrun::trainer::cuda {

/// Records the operations that are queued on a stream, and then launches them together as one
/// graph. Every step is recorded again, because its arguments change. For each kind of step the
/// object keeps an instantiated graph. If only the arguments have changed, launch() updates this
/// graph; otherwise launch() instantiates the graph again. Fails with kInternal and names CUDA's
/// call; the recorded operations are then lost.
class StepGraphs {
 public:
  StepGraphs() = default;
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;
  ~StepGraphs();

  /// Starts recording until launch(). The first step of a kind is not recorded, because libraries
  /// allocate and initialise their state in it.
  [[nodiscard]] Result<> begin(std::size_t kind, cudaStream_t stream);
  [[nodiscard]] bool is_recording() const { return is_recording_; }
  /// Queues the recorded operations on the stream.
  [[nodiscard]] Result<> launch();

 private:
  struct Known {
    std::size_t kind = 0;
    cudaGraphExec_t ready = nullptr;
  };
  std::vector<Known> known_;  // one for each batch size
  std::size_t current_ = 0;   // index in known_
  cudaStream_t stream_ = nullptr;
  bool is_recording_ = false;
};

}  // namespace dlrun::trainer::cuda
