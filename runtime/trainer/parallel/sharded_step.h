#pragma once
// ZeRO's first stage (Rajbhandari et al. 2020, "ZeRO", section 5.1): each rank keeps the
// optimizer's arrays of an equal part of the parameters only.
//
// The flat arrays are cut into size() parts of `part()` elements, of which the last ones may reach
// beyond the parameters. A step is one reduce-scatter of the gradients, the optimizer's step on
// this rank's part, and one all-gather of the parameters: as many bytes as an all-reduce, but none
// of them while backward runs.
//
// Ranks that share memory need neither: each adds its part of all ranks' gradients where these lie,
// and steps on the parameters that all of them use; then they wait for each other. It does so a
// piece at a time, in its own cache, and writes each piece of new parameters past it
// (loops::publish).

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
  /// Of `parameters` elements. communicator, kernels and shared outlive it.
  ShardedStep(Communicator& communicator, Kernels<float>& kernels, std::size_t parameters,
              const SharedArrays* shared = nullptr);

  /// Elements of a part, and of all: so long the arrays of parameters and gradients are to be,
  /// whatever lies there.
  [[nodiscard]] static std::size_t part(std::size_t parameters, int size) {
    const auto ranks = static_cast<std::size_t>(size);
    return (parameters + ranks - 1) / ranks;
  }
  [[nodiscard]] static std::size_t room(std::size_t parameters, int size) {
    return part(parameters, size) * static_cast<std::size_t>(size);
  }
  [[nodiscard]] std::size_t part() const { return part_; }

  /// parameters, gradients: [room] of kernels' memory, which the communicator reads; states:
  /// [part()] each. clip_norm: 0, or what the sum's global norm is held to; rule needs no whole
  /// tensors. Afterwards all ranks hold the new parameters. With shared arrays every rank has been
  /// through a collective since its gradients were final. Fails as the collectives do.
  [[nodiscard]] Result<> step(const Optimizer<float>& rule, float* parameters,
                              const float* gradients, std::span<float* const> states, StepInfo info,
                              double clip_norm);

  /// How long the last step waited for collectives.
  [[nodiscard]] std::chrono::steady_clock::duration waited() const { return waited_; }

  /// When the last step had its part of the sum, had stepped on it, and was over.
  struct Timing {
    std::chrono::steady_clock::time_point summed, stepped, end;
  };
  [[nodiscard]] const Timing& timing() const { return timing_; }
  /// Of the arrays that a step's two collectives are of.
  [[nodiscard]] std::size_t bytes() const { return parameters_ * sizeof(float); }

  /// The whole of an array of which each rank has `mine`, [part()] of kernels' memory; in host
  /// memory, on every rank.
  [[nodiscard]] Result<std::vector<float>> whole(std::span<const float> mine);
  /// This rank's part of whole, [parameters] in host memory, in mine, [part()] of kernels' memory.
  void take(const std::vector<float>& whole, std::span<float> mine);

 private:
  /// This rank's part of all ranks' gradients, in gradients_.
  [[nodiscard]] Result<> sum(const float* gradients);
  /// rule's step where the parameters are shared: each piece of them is copied, stepped on and
  /// published.
  void step_shared(const Optimizer<float>& rule, float* mine, std::span<float* const> states,
                   const StepInfo& info);

  Communicator& communicator_;
  Kernels<float>& kernels_;
  std::size_t parameters_;
  std::size_t part_;
  std::size_t begin_;           // of this rank's part
  std::size_t count_;           // of it that are parameters
  const SharedArrays* shared_;  // nullptr: ranks send to each other
  Array<float> gradients_;      // of this rank's part, all ranks' together
  Array<float> piece_;          // of the parameters, where they are shared
  std::chrono::steady_clock::duration waited_{};
  Timing timing_;
};

}  // namespace dlrun::trainer
