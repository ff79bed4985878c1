#pragma once
// ZeRO stage 1 (Rajbhandari et al. 2020, "ZeRO", section 5.1): each rank keeps the optimizer's
// arrays for an equal part of the parameters only.
//
// The flat arrays are divided into size() parts of part() elements; the last parts may extend
// beyond the parameters. A step is one reduce-scatter of the gradients, the optimizer's step on
// this rank's part, and one all-gather of the parameters. These send as many bytes as an
// all-reduce, but none of them during backward.
//
// With shared memory no rank sends data. Each rank sums its part of all ranks' gradients directly
// from their memory, updates its part of the common parameters, and then waits for the others. It
// updates the parameters piece by piece, in its own cache, and writes each new piece with stores
// that bypass the cache (loops::publish).

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/optim/optimizer.h"
#include "runtime/trainer/parallel/shared_arrays.h"

namespace dlrun::trainer {

class ShardedStep {
 public:
  /// `parameters` is the number of parameters. The other arguments must outlive this object.
  ShardedStep(Communicator& communicator, Kernels<float>& kernels, std::size_t parameters,
              const SharedArrays* shared = nullptr);

  /// Return the number of elements of one part, and of all parts. Arrays of parameters and
  /// gradients must have room for all parts; the values beyond the parameters do not matter.
  [[nodiscard]] static std::size_t part(std::size_t parameters, int size) {
    const auto ranks = static_cast<std::size_t>(size);
    return (parameters + ranks - 1) / ranks;
  }
  [[nodiscard]] static std::size_t room(std::size_t parameters, int size) {
    return part(parameters, size) * static_cast<std::size_t>(size);
  }
  [[nodiscard]] std::size_t part() const { return part_; }

  /// Does one step; afterwards all ranks hold the new parameters. parameters, gradients: [room] in
  /// kernels' memory, which the communicator can read; states: [part()] each. clip_norm limits the
  /// global norm of the summed gradients; 0: no limit. The rule must not need whole tensors. With
  /// shared arrays, every rank must have passed a collective after its gradients became final.
  /// Fails as the collectives do.
  [[nodiscard]] Result<> step(const Optimizer<float>& rule, float* parameters,
                              const float* gradients, std::span<float* const> states, StepInfo info,
                              double clip_norm);

  /// Returns how long the last step waited for collectives.
  [[nodiscard]] std::chrono::steady_clock::duration waited() const { return waited_; }

  /// Times of the last step: its part of the sum was ready, the optimizer had
  /// run, the step had ended.
  struct Timing {
    std::chrono::steady_clock::time_point summed, stepped, end;
  };
  [[nodiscard]] const Timing& timing() const { return timing_; }
  /// Returns the size of the array that each of a step's two collectives exchanges.
  [[nodiscard]] std::size_t bytes() const { return parameters_ * sizeof(float); }

  /// Returns, on every rank and in host memory, a whole array of which each rank has `mine`,
  /// [part()] in kernels' memory.
  [[nodiscard]] Result<std::vector<float>> whole(std::span<const float> mine);
  /// Copies this rank's part of `whole` ([parameters], host memory) to `mine`
  /// ([part()], kernels' memory).
  void take(const std::vector<float>& whole, std::span<float> mine);

 private:
  /// Sums this rank's part of all ranks' gradients into gradients_.
  [[nodiscard]] Result<> sum(const float* gradients);
  /// Runs the optimizer on shared parameters, piece by piece: copy, update, publish.
  void step_shared(const Optimizer<float>& rule, float* mine, std::span<float* const> states,
                   const StepInfo& info);

  Communicator& communicator_;
  Kernels<float>& kernels_;
  std::size_t parameters_;
  std::size_t part_;
  std::size_t begin_;           // first element of this rank's part
  std::size_t count_;           // elements of the part that are parameters
  const SharedArrays* shared_;  // nullptr: ranks exchange messages
  Array<float> gradients_;      // sum over all ranks of this rank's part
  Array<float> piece_;          // copy of a piece of shared parameters
  std::chrono::steady_clock::duration waited_{};
  Timing timing_;
};

}  // namespace dlrun::trainer
