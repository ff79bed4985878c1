#pragma once
// Steps that go to the GPU as one graph each.

#include <cstddef>
#include <vector>

#include <cuda_runtime.h>

#include "common/result.h"

namespace dlrun::trainer::cuda {

/// Records what is queued on a stream instead of running it, and hands it over as one. Each step is
/// recorded anew, so that its arguments are its own; what is kept for each kind of step is the
/// graph that the GPU was made ready for, which takes the new arguments where the operations are
/// the same, and else is made ready again. Fails with kInternal, naming the call of CUDA's; what
/// was recorded is lost then.
class StepGraphs {
 public:
  StepGraphs() = default;
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;
  ~StepGraphs();

  /// Recording begins, until launch(). But the first step of a kind runs as it is: libraries set
  /// themselves up in it.
  [[nodiscard]] Result<> begin(std::size_t kind, cudaStream_t stream);
  [[nodiscard]] bool is_recording() const { return is_recording_; }
  /// What was recorded is queued on the stream.
  [[nodiscard]] Result<> launch();

 private:
  struct Known {
    std::size_t kind = 0;
    cudaGraphExec_t ready = nullptr;
  };
  std::vector<Known> known_;  // a handful: batch sizes
  std::size_t current_ = 0;   // of known_
  cudaStream_t stream_ = nullptr;
  bool is_recording_ = false;
};

}  // namespace dlrun::trainer::cuda
